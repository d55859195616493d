/**
 * Runs `peergrad run` as several processes of one world, each with its own browser: ranks come from
 * environment variables, as with torchrun and `env://`.
 */
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { runCli } from '../../../launcher/cli.ts';
import { ensureBrowser } from '../../../launcher/browser/findBrowser.ts';
import { startSignaling } from '../../../signaling/index.ts';
import { DIST } from '../../../launcher/build.ts';
import { readSafetensors } from '../../../src/formats/weights/safetensors.ts';
import { parseJob } from '../../../src/spec/job.ts';
import type { RunResult } from '../../../src/protocol/runResult.ts';
import { relative, train } from '../../engine/train.ts';
import { CUSTOM_MODEL_JOB } from '../../jobs/models/customModelJob.ts';

vi.setConfig({ testTimeout: 150_000 });

let folder: string;
let chromium: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'peergrad-launcher-'));
  chromium = await ensureBrowser(undefined, console.error);
});
afterAll(() => rm(folder, { recursive: true }));

/**
 * Writes a shell script that runs the command `first` and then becomes the browser. In `first`,
 * `$$` is the browser's process id. Returns the path of the script.
 */
async function browserAfter(name: string, first: string): Promise<string> {
  const file = path.join(folder, name);
  await writeFile(file, `#!/bin/sh\n${first}\nexec '${chromium}' "$@"\n`);
  await chmod(file, 0o755);
  return file;
}

async function freePort(): Promise<number> {
  const brief = await startSignaling({ logLevel: 'silent' });
  await brief.close();
  return brief.port;
}

/** Runs `peergrad run` in WebAssembly; see {@link runCommand}. */
function run(args: string[], env: Record<string, string> = {}, onerr: (line: string) => void = () => {}) {
  return runCommand(['run', '--backend', 'wasm', ...args], env, onerr);
}

/** Runs a command of the launcher until it ends. `onerr` receives each line of stderr. */
async function runCommand(
  argv: string[],
  env: Record<string, string> = {},
  onerr: (line: string) => void = () => {},
  { signal } = new AbortController(),
) {
  const out: string[] = [];
  const err: string[] = [];
  const io = {
    out: (line: string) => void out.push(line),
    err: (line: string) => {
      err.push(line);
      onerr(line);
    },
    terminal: null,
    signal,
  };
  const code = await runCli(argv, io, env);
  return { code, out, err: err.join('\n') };
}

function resultOf({ code, out, err }: Awaited<ReturnType<typeof run>>): RunResult {
  expect(code, err).toBe(0);
  return JSON.parse(out.at(-1)!) as RunResult;
}

test('two processes started by hand form one world, with the ranks of their environment variables', async () => {
  const env = { WORLD_SIZE: '2', MASTER_ADDR: '127.0.0.1', MASTER_PORT: String(await freePort()) };
  const slow = await browserAfter('slow-browser', 'sleep 3');
  // Rank 1's tab joins first, but its rank is still 1. Only rank 0 writes a screenshot.
  const photos = ['0.png', '1.png'].map((name) => path.join(folder, name));
  const start = (rank: 0 | 1, browser: string) =>
    run(['--json', '--steps', '6', '--hash-every', '2', '--browser', browser, '--screenshot', photos[rank]!], {
      ...env,
      RANK: String(rank),
    });
  const results = (await Promise.all([start(1, chromium), start(0, slow)])).map(resultOf);
  for (const result of results) {
    expect(result).toMatchObject({
      worldSize: 2,
      transport: { webrtc: 1, server: 0, memory: 0 },
      steps: 6,
      restarts: 0,
    });
    expect(result.stateHash).toHaveLength(2);
    expect(new Set(result.stateHash)).toEqual(new Set([results[0]!.stateHash[0]]));
    expect(result.losses).toEqual(results[0]!.losses);
  }
  expect(photos.map((file) => existsSync(file))).toEqual([true, false]);
});

test('tabs write the debug log to stderr if DEBUG has its patterns', async () => {
  vi.stubEnv('DEBUG', 'peergrad:recovery,peergrad:membership');
  const written = vi.spyOn(console, 'error').mockImplementation(() => {});
  onTestFinished(() => {
    vi.unstubAllEnvs();
    written.mockRestore();
  });
  resultOf(await run(['--tabs', '2', '--json', '--steps', '2', '--browser', chromium]));
  const lines = written.mock.calls.map((parts) => parts.slice(1).join(' '));
  for (const rank of [0, 1]) expect(lines).toContain(`peergrad:recovery Rank ${rank}, generation 1, commits step 2.`);
  expect(lines).toContainEqual(
    expect.stringMatching(/^peergrad:membership Member \S+ receives prepare: generation 1 of /),
  );
});

test('layers of a job file learn the same on WebGPU and on the CPU, and are saved with their names', async () => {
  const [job, out] = ['own.json', 'own.safetensors'].map((name) => path.join(folder, name));
  await writeFile(job!, JSON.stringify({ peergrad: 1, ...CUSTOM_MODEL_JOB, batchSize: 4 }));
  const ended = await runCommand([
    'run',
    job!,
    '--tabs',
    '2',
    '--steps',
    '3',
    '--out',
    out!,
    '--json',
    '--gpu',
    'software',
  ]);
  const result = resultOf(ended);
  expect(result).toMatchObject({ worldSize: 2, backend: 'webgpu', steps: 3 });
  expect(result.stateHash).toEqual([result.stateHash[0], result.stateHash[0]]);
  await tf.setBackend('cpu');
  const [alone] = (await train(1, { ...CUSTOM_MODEL_JOB, batchSize: 8, maxSteps: 3 })).results;
  for (const [step, loss] of alone!.losses.entries()) expect(relative(result.losses[step]!, loss)).toBeLessThan(1e-3);
  const { tensors, about } = readSafetensors('own.safetensors', new Uint8Array(await readFile(out!)));
  expect(Object.fromEntries(tensors.map(({ name, shape }) => [name, shape]))).toEqual({
    'conv/kernel': [3, 3, 1, 4],
    'conv/bias': [4],
    'depthwise/depthwise_kernel': [3, 3, 4, 1],
    'depthwise/bias': [4],
    'normalized/gamma': [4],
    'normalized/beta': [4],
    'hidden/kernel': [128, 12],
    'hidden/bias': [12],
    'gate/kernel': [128, 12],
    'gate/bias': [12],
    'answer/kernel': [12, 10],
    'answer/bias': [10],
  });
  expect(about['peergrad.step']).toBe('3');
});

test('a world whose browser is killed restarts on every node, until the limit of restarts is reached', async () => {
  const pids = path.join(folder, 'pids');
  const mortal = await browserAfter('mortal-browser', `echo $$ >> '${pids}'`);
  const shared = ['--nnodes', '2', '--nproc-per-node', '1', '--master-addr', '127.0.0.1', '--rdzv-id', 'mortal'];
  const common = [
    ...shared,
    '--master-port',
    String(await freePort()),
    '--max-restarts',
    '1',
    '--json',
    '--steps',
    '100',
  ];
  const kills: Promise<void>[] = [];
  const kill = async (): Promise<void> => {
    const [first] = (await readFile(pids, 'utf8')).split('\n');
    process.kill(Number(first), 'SIGKILL');
  };
  const nodes = await Promise.all([
    run([...common, '--node-rank', '0']),
    run([...common, '--node-rank', '1', '--browser', mortal], {}, (line) => {
      if (kills.length === 0 && line.startsWith('step ')) kills.push(kill());
    }),
  ]);
  await Promise.all(kills);
  expect(nodes[0].err).toMatch(/Rank 1 \(tab-2\) left while training.* Restarting the run, restart 1 of 1\./);
  expect(nodes[1].err).toMatch(/tab-2: .*browser has ended\. Restarting the run, restart 1 of 1\./);
  const results = nodes.map(resultOf);
  for (const result of results) {
    expect(result).toMatchObject({ worldSize: 2, steps: 100, restarts: 1 });
    expect(new Set(result.stateHash)).toEqual(new Set([results[0]!.stateHash[0]]));
  }
});

test('a run without restarts fails when its browser is killed', async () => {
  const pids = path.join(folder, 'pids-of-one');
  const mortal = await browserAfter('mortal-browser-of-one', `echo $$ >> '${pids}'`);
  const kills: Promise<void>[] = [];
  const { code, out, err } = await run(['--tabs', '1', '--steps', '2000', '--browser', mortal], {}, (line) => {
    if (kills.length > 0 || !line.startsWith('step ')) return;
    kills.push(readFile(pids, 'utf8').then((pid) => void process.kill(Number(pid), 'SIGKILL')));
  });
  await Promise.all(kills);
  expect([code, out]).toEqual([1, []]);
  expect(err).toMatch(/peergrad: tab-1: the browser has ended\.$/);
});

test('tabs are distributed over several browsers if SwiftShader supports fewer tabs in one browser', async () => {
  const pids = path.join(folder, 'pids-of-several');
  const counted = await browserAfter('counted-browser', `echo $$ >> '${pids}'`);
  const command = 'run --gpu software --tabs 5 --steps 2 --batch 2 --json --browser';
  const result = resultOf(await runCommand([...command.split(' '), counted]));
  expect(result).toMatchObject({ worldSize: 5, steps: 2, restarts: 0 });
  const { webrtc, server, memory } = result.transport;
  expect([webrtc > 0, server, memory > 0, webrtc + memory]).toEqual([true, 0, true, 5]);
  expect((await readFile(pids, 'utf8')).trim().split('\n')).toHaveLength(2);
});

test('`peergrad join` waits for server and room, replaces a killed browser, and stays after the run with --stay', async () => {
  const pids = path.join(folder, 'pids-that-join');
  const mortal = await browserAfter('mortal-joiner', `echo $$ >> '${pids}'`);
  const port = await freePort();
  const logged: { event: string; msg: string }[] = [];
  const waitForLine = (event: string, msg = /./, count = 1) =>
    vi.waitFor(
      () => expect(logged.filter((line) => line.event === event && msg.test(line.msg))).toHaveLength(count),
      60_000,
    );
  const controller = new AbortController();
  const joined = runCommand(
    ['join', `http://127.0.0.1:${port}/#K7F3QX`, '--stay', '--json-lines', '--backend', 'wasm', '--browser', mortal],
    {},
    (line) => logged.push(JSON.parse(line) as (typeof logged)[number]),
    controller,
  );
  await waitForLine('note', /Waiting for the server/);
  const server = await startSignaling({ port, dist: DIST, logLevel: 'silent' });
  await waitForLine('lost', /no room.*Trying again in \d s/i);
  const job = parseJob({ maxSteps: 3, batchSize: 4, hidden: 8 });
  server.createRoom({ code: 'K7F3QX', job, startAt: 2, nodes: { min: 1, max: 8 } });
  await waitForLine('admitted');
  process.kill(Number(await readFile(pids, 'utf8')), 'SIGKILL');
  await waitForLine('lost', /the browser has ended\. Trying again/);
  await waitForLine('admitted', /is in the room/, 2);
  await runCommand(['join', `http://127.0.0.1:${port}/#K7F3QX`, '--backend', 'wasm', '--name', 'other']);
  await waitForLine('waiting', /has finished after 3 steps/);
  controller.abort(new Error('Ctrl-C'));
  expect((await joined).code).toBe(130);
  await server.close();
});
