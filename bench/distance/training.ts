/** Seconds until a model reaches a goal with each method, in tabs that are far apart. */
import path from 'node:path';
import { launchBrowser } from '../../launcher/browser/browser.ts';
import type { Io } from '../../launcher/io.ts';
import { parseJob } from '../../src/spec/job.ts';
import { LINES, type LineName } from '../../tools/network/lines.ts';
import { table } from '../../tools/report/table.ts';
import { METHODS, type Method } from '../methods.ts';
import { trainInBrowsers } from '../training/trainInBrowsers.ts';
import type { FarApart } from './farApart.ts';

export interface TrainingOptions {
  tabs: number;
  lines: LineName[];
  /** Folder with MNIST's files. */
  data?: string;
  /** Path of the language model's text. */
  text?: string;
  seconds: number;
}

interface Goal {
  task: string;
  /** Fields of the job. */
  fields: Readonly<Record<string, unknown>>;
  /** Folder that the server serves. */
  folder: string;
  isReached: (evaluation: { loss: number; accuracy: number | null }) => boolean;
}

export interface DistanceRow {
  line: LineName;
  task: string;
  method: string;
  /** Seconds from the first step until held-out samples reached the goal; `null`: not in time. */
  seconds: number | null;
  /** Number of steps in this time, and their mean duration. */
  steps: number;
  stepMs: number;
}

const ADDRESS = '127.0.0.1';
/** A run has eight evaluations, and one after each epoch. */
const DIGITS_STEPS = 240;
const TEXT_STEPS = 1600;

export async function trainFarApart(network: FarApart, options: TrainingOptions, io: Io): Promise<DistanceRow[]> {
  const rows: DistanceRow[] = [];
  for (const line of options.lines) {
    for (const goal of goalsOf(options)) {
      for (const method of METHODS) {
        io.err(`${goal.task} over ${line}: ${method.name} ...`);
        network.relay.setLines(LINES[line]);
        const reached = await reach(goal, method, network, options, io);
        rows.push({ line, task: goal.task, method: method.name, ...reached });
        io.err(JSON.stringify({ ...rows.at(-1)!, ...network.relay.losses }));
      }
    }
  }
  return rows;
}

function goalsOf({ data, text }: TrainingOptions): Goal[] {
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
  { ice }: FarApart,
  { tabs, seconds }: TrainingOptions,
  io: Io,
): Promise<Pick<DistanceRow, 'seconds' | 'steps' | 'stepMs'>> {
  const job = parseJob({ ...fields, ...method.fields, ...(task === 'mnist' ? {} : method.gpt) });
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
