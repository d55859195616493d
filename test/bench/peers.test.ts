import type * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { MODEL_NAMES, MODELS, type PeerName } from '../../bench/peers/args.ts';
import { compare, section, type PeersRow } from '../../bench/peers/benchmark.ts';
import { openJax } from '../../bench/peers/jaxjs.ts';
import { loadTask } from '../../bench/peers/task.ts';
import { runBench } from '../../bench/command/cli.ts';

const takesTurns = (asked: [PeerName, number][], peer: PeerName, ms: number, loss: number) => async (steps: number) => {
  asked.push([peer, steps]);
  return { ms, losses: Array.from({ length: steps }, () => loss) };
};

test('a row has median times, and the largest difference of a loss; a library that fails is left out', async () => {
  const asked: [PeerName, number][] = [];
  const turns = new Map<PeerName, (steps: number) => Promise<{ ms: number; losses: number[] }>>([
    ['peergrad', takesTurns(asked, 'peergrad', 10, 2)],
    ['jaxjs', takesTurns(asked, 'jaxjs', 25, 2.00001)],
    ['tfjs', () => Promise.reject(new Error("page.evaluate: PeergradError: Kernel 'A' is missing\n  at x"))],
  ]);
  const row = await compare({ turns, notes: ['pytorch: absent'], close: () => {} }, 2);
  expect(row).toEqual({
    ms: { peergrad: 10, threads: null, jaxjs: 25, tfjs: null, pytorch: null },
    ratio: { jaxjs: 2.5 },
    lossDifference: expect.closeTo(0.00001, 8) as number,
    notes: ['pytorch: absent', "tfjs: Kernel 'A' is missing"],
  });
  // After the warm-up, libraries take turns of about the same length.
  expect(asked.slice(-4)).toEqual([
    ['peergrad', 25],
    ['jaxjs', 10],
    ['peergrad', 25],
    ['jaxjs', 10],
  ]);
  const shown = section([{ model: 'cnn', backend: 'wasm', ...row } satisfies PeersRow]);
  expect(shown).toMatch(/\| cnn, wasm +\| +10.00 \| +- \| +25.00 \| +- \| +- \| +2.50 \| +1e-5 \|/);
  expect(shown).toContain("cnn, wasm: tfjs: Kernel 'A' is missing");
});

test('every model has WebAssembly, and the command accepts only its models and backends', async () => {
  expect(MODEL_NAMES.filter((name) => !MODELS[name].backends.includes('wasm'))).toEqual([]);
  const err: string[] = [];
  const io = {
    ...{ out: () => {}, err: (text: string) => err.push(text), terminal: null },
    signal: new AbortController().signal,
  };
  const lines = [
    ['--model', 'lenet'],
    ['--backend', 'webgl'],
    ['--rounds', '0'],
  ];
  for (const line of lines) expect(await runBench(['peers', ...line], io)).toBe(2);
  expect(err.join('\n')).toMatch(/Pass one of: mlp, .*nanogpt[^]*Pass one of: webgpu, wasm[^]*whole number from 1/);
});

async function sumOf(pass: unknown): Promise<number> {
  const loss = (pass as () => tf.Scalar)();
  const [sum] = await loss.data();
  loss.dispose();
  return sum!;
}

test('the mlp in jax-js has the loss of the model of this project', async () => {
  const { task, indicesOf, problem } = await loadTask('mlp');
  const { batch } = MODELS.mlp;
  const own = (await task.withBatch(indicesOf(1), sumOf, { step: 0, epoch: 0 }, batch)) / batch;
  const jax = await openJax({ peer: 'jaxjs', model: 'mlp', backend: 'wasm', problem: await problem() });
  task.dispose();
  expect(await jax.step(1)).toBeCloseTo(own, 4);
});
