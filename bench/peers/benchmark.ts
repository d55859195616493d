/**
 * `bench peers`: training steps of peergrad, jax-js, TensorFlow.js and PyTorch, which take turns.
 * All train the same model on the same batches from the same weights.
 */
import { spawn } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Io } from '../../launcher/io.ts';
import { wholeNumber } from '../../launcher/options/jobOptions.ts';
import { startSignaling } from '../../signaling/index.ts';
import { unlessAborted } from '../../src/util/deadline.ts';
import { errorMessageOf, PeergradError } from '../../src/util/errors.ts';
import { median } from '../../src/util/statistics.ts';
import { buildPage } from '../../tools/buildPage.ts';
import { table } from '../../tools/report/table.ts';
import { findTorch } from '../../tools/torch-parity/python.ts';
import { defineBenchmark } from '../command/defineBenchmark.ts';
import { listOf, oneOf, option } from '../command/options.ts';
import { BROWSER_OPTIONS, openBenchPage, type BrowserChoice } from '../world/browsers.ts';
import {
  ADAM,
  BACKENDS,
  BATCHES,
  MODEL_NAMES,
  MODELS,
  PEERS,
  TAB_PEERS,
  type ModelName,
  type PeerBackend,
  type PeerName,
  type Problem,
  type TabPeer,
  type Turn,
} from './args.ts';

interface PeersOptions extends BrowserChoice {
  model: readonly ModelName[];
  backend: readonly PeerBackend[];
  rounds: number;
}

export interface PeersRow {
  model: ModelName;
  backend: PeerBackend;
  /** Median milliseconds of a step; `null`: the library cannot train this model, see `notes`. */
  ms: Record<PeerName, number | null>;
  /** Time of each other library divided by peergrad's. */
  ratio: Partial<Record<PeerName, number>>;
  /** Largest difference of a loss from peergrad's in the first steps, in nats. */
  lossDifference: number;
  /** Sentences about libraries that are left out. */
  notes: string[];
}

/** Steps before the first turn. peergrad records, compares and then replays its passes in them. */
const FIRST_STEPS = 12;
/**
 * Too little for another model or optimizer, enough for float32: losses of jax-js differ by 4e-6 in
 * the first step of mlp-1024, and by 8e-4 in the last.
 */
const TOLERANCE_NATS = 2e-3;
/** Milliseconds that a turn takes, if a step is shorter, and the most steps of a turn. */
const TURN_MS = 250;
const MOST_STEPS = 50;

const PAGE = 'bench/peers/page.html';

/** Takes a number of steps. */
type TakeTurn = (steps: number) => Promise<Turn>;

/** The opened libraries. */
interface Opened {
  turns: Map<PeerName, TakeTurn>;
  notes: string[];
  close: () => void;
}

type Call = (peer: TabPeer, name: string, args: unknown) => Promise<unknown>;

/** Opens the libraries of a page, and PyTorch unless `python` is `null`. */
async function open(model: ModelName, backend: PeerBackend, call: Call, python: string | null): Promise<Opened> {
  const turns = new Map<PeerName, TakeTurn>();
  const notes: string[] = [];
  let problem: Problem | null = null;
  // A GPU needs no threads.
  for (const peer of TAB_PEERS.filter((name) => name !== 'threads' || backend === 'wasm')) {
    const opened = (await call(peer, 'open', { peer, model, backend, problem })) as Problem | null;
    problem ??= opened;
    turns.set(peer, (steps) => call(peer, 'turn', { steps }) as Promise<Turn>);
  }
  const pytorch = backend === 'wasm' && python !== null ? openPyTorch(python, problem!) : null;
  if (pytorch) turns.set('pytorch', pytorch.turn);
  else if (backend === 'wasm')
    notes.push('pytorch: it is not installed (Debian: apt install python3-torch libopenblas0).');
  return { turns, notes, close: () => pytorch?.close() };
}

/**
 * Runs pytorch.py, which takes its turns with the libraries in tabs.
 *
 * @param python a Python program that has PyTorch.
 */
function openPyTorch(python: string, problem: Problem): { turn: TakeTurn; close: () => void } {
  const child = spawn(python, [path.join(import.meta.dirname, 'pytorch.py')], { stdio: ['pipe', 'pipe', 'inherit'] });
  const answers = createInterface(child.stdout)[Symbol.asyncIterator]();
  // If Python ends early, its output ends, which is reported.
  child.stdin.on('error', () => {});
  child.stdin.write(`${JSON.stringify({ ...problem, adam: ADAM, batches: BATCHES })}\n`);
  return {
    turn: async (steps) => {
      child.stdin.write(`${steps}\n`);
      const { value } = (await answers.next()) as IteratorResult<string, undefined>;
      if (value === undefined) throw new PeergradError('PyTorch ended without a result. See its message above.');
      return JSON.parse(value) as Turn;
    },
    close: () => child.stdin.end(),
  };
}

/** Compares the losses of the first steps, and then measures all libraries in turn. */
export async function compare({ turns, notes }: Opened, rounds: number): Promise<Omit<PeersRow, 'model' | 'backend'>> {
  const losses = new Map<PeerName, readonly number[]>();
  const steps = new Map<PeerName, number>();
  for (const [peer, turn] of turns) {
    try {
      losses.set(peer, (await turn(FIRST_STEPS)).losses);
    } catch (error) {
      if (peer === 'peergrad') throw error;
      const [sentence] = errorMessageOf(error).split('\n', 1);
      notes.push(`${peer}: ${sentence!.replace(/^page.evaluate: (\w+Error: )?/, '')}`);
      continue;
    }
    const { ms } = await turn(1);
    steps.set(peer, Math.min(MOST_STEPS, Math.max(1, Math.round(TURN_MS / ms))));
  }
  const times = new Map<PeerName, number[]>([...steps.keys()].map((peer) => [peer, []]));
  for (let round = 0; round < rounds; round++) {
    for (const [peer, count] of steps) times.get(peer)!.push((await turns.get(peer)!(count)).ms);
  }
  const ms = Object.fromEntries(
    PEERS.map((peer) => [peer, times.has(peer) ? median(times.get(peer)!) : null]),
  ) as PeersRow['ms'];
  const ratio = Object.fromEntries(
    PEERS.flatMap((peer) => (peer === 'peergrad' || ms[peer] === null ? [] : [[peer, ms[peer] / ms.peergrad!]])),
  );
  const own = losses.get('peergrad')!;
  const differences = [...losses.values()].flatMap((other) => other.map((loss, i) => Math.abs(loss - own[i]!)));
  return { ms, ratio, lossDifference: Math.max(...differences), notes };
}

async function measure({ model: models, rounds, ...options }: PeersOptions, io: Io): Promise<PeersRow[]> {
  const python = findTorch()?.python ?? null;
  const rows: PeersRow[] = [];
  const { dist, remove } = await buildPage(PAGE);
  const server = await startSignaling({ dist });
  try {
    for (const backend of options.backend) {
      const choice = backend === 'webgpu' ? options : { ...options, gpu: 'auto' as const };
      for (const model of models.filter((name) => MODELS[name].backends.includes(backend))) {
        io.err(`${model}, ${backend} ...`);
        const page = await openBenchPage(`${server.url}/${PAGE}`, choice, backend);
        let opened: Opened | undefined;
        try {
          const call: Call = (...args) =>
            unlessAborted(io.signal, page.evaluate(`callPeer(...${JSON.stringify(args)})`));
          opened = await open(model, backend, call, python);
          rows.push({ model, backend, ...(await compare(opened, rounds)) });
        } finally {
          opened?.close();
          await page.close();
        }
      }
    }
  } finally {
    await server.close();
    await remove();
  }
  return rows;
}

/** Returns a clause for each model whose losses differ by more than {@link TOLERANCE_NATS}. */
function problemsOf(rows: readonly PeersRow[]): string[] {
  return rows
    .filter(({ lossDifference }) => !(lossDifference <= TOLERANCE_NATS))
    .map(({ model, backend, lossDifference }) => `losses of ${model} on ${backend} differ by ${lossDifference} nats`);
}

/** A table, and the rows' notes. */
function lines(rows: readonly PeersRow[]): string {
  const shown = table(
    ['model, backend', ...PEERS.map((peer) => `${peer}, ms`), 'jaxjs / peergrad', 'losses'],
    rows.map(({ model, backend, ms, ratio, lossDifference }) => [
      `${model}, ${backend}`,
      ...PEERS.map((peer) => ms[peer]?.toFixed(2) ?? '-'),
      ratio.jaxjs?.toFixed(2) ?? '-',
      lossDifference.toExponential(0),
    ]),
  );
  const notes = rows.flatMap(({ model, backend, notes: own }) => own.map((note) => `${model}, ${backend}: ${note}`));
  return [shown, ...notes].join('\n\n');
}

export function section(rows: readonly PeersRow[]): string {
  return `## Beside other libraries

\`npm run -s bench -- peers\`: a training step of peergrad, jax-js, TensorFlow.js and PyTorch with the same model, batches, first weights and
Adam, without dropout and clipping. They take turns; times are medians. Each library has one thread, except *threads*: peergrad with
a thread for each core. Each step copies its samples to the device and reads its loss. *peergrad* is the step of a rank that is alone: it reads all gradients and updates on
the CPU. *jaxjs* is one jitted function. *tfjs* is \`variableGrads\` and \`tf.train.adam\` with TensorFlow.js's own kernels.
*losses* is the largest difference of a loss from peergrad's in the first ${FIRST_STEPS} steps, in nats.

${lines(rows)}
`;
}

export const peers = defineBenchmark({
  name: 'peers',
  description: 'compare a training step with jax-js, TensorFlow.js and PyTorch; fails if losses differ',
  options: [
    option('--model <name,..>', 'models', listOf(oneOf(MODEL_NAMES)), [...MODEL_NAMES]),
    option('--backend <name,..>', 'backends of the tab', listOf(oneOf(BACKENDS)), [...BACKENDS]),
    ...BROWSER_OPTIONS,
    option('--rounds <n>', 'turns of each library', wholeNumber(1, 100), 9),
  ],
  measure,
  problemsOf,
  section,
});
