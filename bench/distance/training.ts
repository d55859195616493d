/** Seconds until a model reaches a goal with each method, in tabs that are far apart. */
import path from 'node:path';
import { launchBrowser } from '../../launcher/browser/browser.ts';
import type { Io } from '../../launcher/io.ts';
import type { EngineEvent } from '../../src/protocol/events.ts';
import type { MethodComparison } from '../../src/protocol/runResult.ts';
import { parseJob, type JobSpec } from '../../src/spec/job.ts';
import { METHOD_FIELDS, type MethodName } from '../../src/spec/methods.ts';
import { LINES, type LineName } from '../../tools/network/lines.ts';
import { countOverflows } from '../../tools/network/overflows.ts';
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
  /** Duration of a step that `auto` expects; `null` if `auto` does not compare the method. */
  expected: number | null;
}

const ADDRESS = '127.0.0.1';
/** A run has eight evaluations, and one after each epoch. */
export const DIGITS_STEPS = 240;
export const TEXT_STEPS = 1600;

export async function trainFarApart(network: FarApart, options: TrainingOptions, io: Io): Promise<DistanceRow[]> {
  const rows: DistanceRow[] = [];
  for (const line of options.lines) {
    for (const goal of goalsOf(options)) {
      network.relay.setLines(LINES[line]);
      io.err(`${goal.task} over ${line}: auto ...`);
      const chosen = await choose(goal, network, options, io);
      const own: DistanceRow[] = [];
      for (const method of METHODS) {
        io.err(`${goal.task} over ${line}: ${method.name} ...`);
        network.relay.setLines(LINES[line]);
        const overflows = countOverflows();
        const reached = await reach(goal, method, network, options, io);
        own.push({ line, task: goal.task, method: method.name, ...reached, expected: chosen.expected(method) });
        io.err(JSON.stringify({ ...own.at(-1)!, ...network.relay.losses, overflows: overflows() }));
      }
      const best = own.find(({ method }) => method === chosen.name)!;
      rows.push(...own, { ...best, method: `auto: ${chosen.name}` });
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

/** Resolves with the method that the strategy `auto` finds best. */
async function choose(
  goal: Goal,
  network: FarApart,
  { tabs }: TrainingOptions,
  io: Io,
): Promise<{ name: string; expected: (method: Method) => number | null }> {
  const job = parseJob({ ...goal.fields, strategy: 'auto' });
  const compared: MethodComparison[] = [];
  await inTabs(goal, network, tabs, job, io, (event) => {
    if (event.type === 'finished') compared.push(event.result.methods!);
    return event.type === 'finished';
  });
  const { best, costs, ...links } = compared[0]!;
  io.err(JSON.stringify({ best, ...links }));
  return {
    name: METHODS.find((method) => isOf(method, best))!.name,
    expected: (method) => costs.find((cost) => isOf(method, cost.method))?.stepMs ?? null,
  };
}

function isOf({ fields }: Method, name: MethodName): boolean {
  const { strategy = 'ddp', codec = 'fp32' } = fields;
  return METHOD_FIELDS[name].strategy === strategy && METHOD_FIELDS[name].codec === codec;
}

async function inTabs(
  { folder }: Goal,
  { ice }: FarApart,
  tabs: number,
  job: JobSpec,
  io: Io,
  onevent: (event: EngineEvent, tab: number) => boolean,
): Promise<void> {
  await trainInBrowsers(
    {
      ...{ tabs, address: ADDRESS, remote: false, data: folder, ice, job, isElastic: false },
      launch: () => launchBrowser({ backend: 'wasm' }),
    },
    io,
    onevent,
  );
}

async function reach(
  goal: Goal,
  method: Method,
  network: FarApart,
  { tabs, seconds }: TrainingOptions,
  io: Io,
): Promise<Pick<DistanceRow, 'seconds' | 'steps' | 'stepMs'>> {
  const { fields, isReached } = goal;
  const job = parseJob({ ...fields, ...method.fields });
  let steps = 0;
  let at = 0;
  let reached = false;
  await inTabs(goal, network, tabs, job, io, (event, tab) => {
    if (tab !== 0) return false;
    if (event.type === 'step') {
      steps = event.step + 1;
      ({ at } = event);
    }
    if (event.type === 'evaluation') reached ||= isReached(event);
    return reached || event.type === 'finished' || at > seconds * 1000;
  });
  return { seconds: reached ? at / 1000 : null, steps, stepMs: at / steps };
}

export function distanceTable(rows: readonly DistanceRow[]): string {
  return table(
    ['line', 'task', 'method', 'seconds to the goal', 'steps', 'ms per step', 'ms expected by auto'],
    rows.map(({ line, task, method, seconds, steps, stepMs, expected }) => [
      ...[line, task, method, seconds === null ? 'not reached' : seconds.toFixed(1)],
      ...[String(steps), stepMs.toFixed(0), expected?.toFixed(0) ?? ''],
    ]),
  );
}
