/**
 * `bench distance`: trains in tabs that are as far apart as over the internet, with each method, and
 * measures the seconds until a goal. Tabs connect through a TURN server and lines with a limited
 * rate, delay and loss (tools/network).
 */
import path from 'node:path';
import { Option } from 'commander';
import { launchBrowser } from '../launcher/browser/browser.ts';
import { ensureBuilt } from '../launcher/build.ts';
import type { Io } from '../launcher/io.ts';
import { wholeNumber } from '../launcher/options/jobOptions.ts';
import { NO_ICE } from '../signaling/ice.ts';
import { parseJob } from '../src/spec/job.ts';
import { systemClock } from '../src/util/clock.ts';
import { LineRelay } from '../tools/network/lineRelay.ts';
import { LINES, type LineName } from '../tools/network/lines.ts';
import { TurnServer } from '../tools/network/turnServer.ts';
import { table } from '../tools/report/table.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import { listOf, oneOf, option, tabsOption } from './command/options.ts';
import { METHODS, type Method } from './methods.ts';
import { trainInBrowsers } from './training/trainInBrowsers.ts';

interface DistanceOptions {
  tabs: number;
  lines: LineName[];
  /** Folder with MNIST's files. */
  data?: string;
  /** Path of the language model's text. */
  text?: string;
  seconds: number;
  json?: true;
}

interface Goal {
  task: string;
  /** Fields of the job. */
  fields: Readonly<Record<string, unknown>>;
  /** Folder that the server serves. */
  folder: string;
  isReached: (evaluation: { loss: number; accuracy: number | null }) => boolean;
}

interface DistanceRow {
  line: LineName;
  task: string;
  method: string;
  /** Seconds from the first step until held-out samples reached the goal; `null`: not in time. */
  seconds: number | null;
  /** Number of steps in this time, and their mean duration. */
  steps: number;
  stepMs: number;
}

const SECRET = 'peergrad-bench';
const ADDRESS = '127.0.0.1';
const SEED = 1;
/** A run has eight evaluations, and one after each epoch. */
const DIGITS_STEPS = 240;
const TEXT_STEPS = 1600;

/** @throws (rejects) PeergradError if coturn is not installed, or a tab fails. */
async function benchDistance(options: DistanceOptions, io: Io): Promise<void> {
  const { lines, json } = options;
  await ensureBuilt(io);
  const turn = await TurnServer.start(SECRET);
  const relay = await LineRelay.start({ turnPort: turn.port, clock: systemClock, seed: SEED });
  const rows: DistanceRow[] = [];
  try {
    for (const line of lines) {
      for (const goal of goalsOf(options)) {
        for (const method of METHODS) {
          io.err(`${goal.task} over ${line}: ${method.name} ...`);
          relay.setLines(LINES[line]);
          rows.push({ line, task: goal.task, method: method.name, ...(await reach(goal, method, relay, options, io)) });
          io.err(JSON.stringify({ ...rows.at(-1)!, ...relay.losses }));
        }
      }
    }
  } finally {
    relay.close();
    await turn.stop();
  }
  io.out(json === undefined ? distanceTable(rows) : JSON.stringify({ ...options, rows }));
}

function goalsOf({ data, text }: DistanceOptions): Goal[] {
  const digits = { hidden: 256, batchSize: 32, epochs: 100, maxSteps: DIGITS_STEPS, hashEvery: 1000 };
  return [
    ...(data === undefined
      ? []
      : [
          {
            task: 'mnist',
            fields: { job: 'mnist', ...digits, data: { kind: 'url', url: '/data/' } },
            folder: data,
            isReached: ({ accuracy }: { accuracy: number | null }) => (accuracy ?? 0) >= 0.9,
          },
        ]),
    ...(text === undefined
      ? []
      : [
          {
            task: 'gpt tiny',
            fields: {
              job: 'gpt',
              ...{ epochs: 100, maxSteps: TEXT_STEPS, hashEvery: 1000 },
              data: { kind: 'url', url: `/data/${path.basename(text)}` },
            },
            folder: path.dirname(text),
            isReached: ({ loss }: { loss: number }) => loss <= 2.2,
          },
        ]),
  ];
}

async function reach(
  { task, fields, folder, isReached }: Goal,
  method: Method,
  relay: LineRelay,
  { tabs, seconds }: DistanceOptions,
  io: Io,
): Promise<Pick<DistanceRow, 'seconds' | 'steps' | 'stepMs'>> {
  const job = parseJob({ ...fields, ...method.fields, ...(task === 'mnist' ? {} : method.gpt) });
  const ice = { ...NO_ICE, turn: [`turn:${ADDRESS}:${relay.port}`], turnSecret: SECRET, relayOnly: true };
  let steps = 0;
  let at = 0;
  let reached = false;
  await trainInBrowsers(
    {
      ...{ tabs, address: ADDRESS, remote: false, data: folder, ice, job, isElastic: false },
      launch: () => launchBrowser({ backend: 'wasm' }),
    },
    io,
    (event, tab) => {
      if (tab !== 0) return false;
      if (event.type === 'step') {
        steps = event.step + 1;
        ({ at } = event);
      }
      if (event.type === 'evaluation') reached ||= isReached(event);
      return reached || event.type === 'finished' || at > seconds * 1000;
    },
  );
  return { seconds: reached ? at / 1000 : null, steps, stepMs: at / steps };
}

export function distanceTable(rows: readonly DistanceRow[]): string {
  return table(
    ['line', 'task', 'method', 'seconds to the goal', 'steps', 'ms per step'],
    rows.map(({ line, task, method, seconds, steps, stepMs }) => [
      ...[line, task, method, seconds === null ? 'not reached' : seconds.toFixed(1)],
      ...[String(steps), stepMs.toFixed(0)],
    ]),
  );
}

export function section({ tabs, seconds, rows }: DistanceOptions & { rows: DistanceRow[] }): string {
  return `## Training over distance

\`npm run -s bench -- distance --data DIR --text FILE\`. ${tabs} tabs, each in its own browser, on WebAssembly. They connect through a TURN server and a line
of their own: *home* has 15 Mbit/s up, 100 down, a round trip of 30 ms and 0.1 % loss; *phone* 5, 20, 60 ms and 0.5 %; *continent* 50, 50, 80 ms and 0.05 %
(tools/network). The goal is 90 % accuracy on mnist (mlp with 256 hidden units, batches of 32), or 2.2 nats per character with gpt tiny. *Seconds* are those
from the first step to the evaluation that reaches the goal. A run ends after ${seconds} seconds.

${distanceTable(rows)}
`;
}

export const distance = defineBenchmark({
  name: 'distance',
  description: 'measure the seconds to a goal of each method in tabs on slow lines; needs coturn',
  options: [
    tabsOption(4),
    option('--lines <name,..>', 'lines of the tabs', listOf(oneOf(Object.keys(LINES) as LineName[])), [
      'home',
      'phone',
    ] as LineName[]),
    new Option('--data <folder>', "folder with MNIST's IDX files, to train the classifier"),
    new Option('--text <file>', 'text file, to train the language model'),
    option('--seconds <n>', 'time limit of a run', wholeNumber(1), 120),
  ],
  run: benchDistance,
  section,
});
