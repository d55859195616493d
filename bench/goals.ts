/**
 * `bench goals`: measures the seconds until a model reaches a goal with each method, in tabs whose
 * lines are as slow as at home or on a phone, and how much slower the choice of `auto` is than the
 * best method.
 */
import path from 'node:path';
import { Option } from 'commander';
import { launchBrowser } from '../launcher/browser/browser.ts';
import { ensureBuilt } from '../launcher/build.ts';
import type { Io } from '../launcher/io.ts';
import { wholeNumber } from '../launcher/options/jobOptions.ts';
import type { EngineEvent } from '../src/protocol/events.ts';
import type { MethodComparison } from '../src/protocol/runResult.ts';
import { parseJob, type JobSpec } from '../src/spec/job.ts';
import { METHOD_FIELDS, type MethodName } from '../src/spec/methods.ts';
import { mean } from '../src/util/statistics.ts';
import { LINES, type LineName } from '../tools/network/lines.ts';
import { countOverflows } from '../tools/network/overflows.ts';
import { table } from '../tools/report/table.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import { listOf, oneOf, option, tabsOption } from './command/options.ts';
import { METHODS, type Method } from './methods.ts';
import { trainInBrowsers } from './training/trainInBrowsers.ts';
import { farApart, type FarApart } from './world/farApart.ts';

interface GoalsOptions {
  tabs: number;
  lines: LineName[];
  /** Number of runs of the classifier with each method. */
  seeds: number;
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
  seeds: number;
  /** Folder that the server serves. */
  folder: string;
  isReached: (evaluation: { loss: number; accuracy: number | null }) => boolean;
}

interface GoalRow {
  line: LineName;
  task: string;
  method: string;
  /**
   * Seconds from the first step until held-out samples reached the goal, mean of all seeds; `null`:
   * a run did not reach it in time.
   */
  seconds: number | null;
  /** Seconds divided by those of the best method. */
  timesBest: number | null;
  /** Number of steps in this time, mean of all seeds, and the mean duration of a step. */
  steps: number;
  stepMs: number;
  /** Duration of a step that `auto` expects; `null` if `auto` does not compare the method. */
  expected: number | null;
}

const ADDRESS = '127.0.0.1';
/** A run has eight evaluations, and one after each epoch. */
const DIGITS_STEPS = 240;
const TEXT_STEPS = 1600;

/** @throws (rejects) PeergradError if coturn is not installed, or a tab fails. */
async function benchGoals(options: GoalsOptions, io: Io): Promise<void> {
  await ensureBuilt(io);
  const rows = await farApart((network) => measureGoals(network, options, io));
  io.out(options.json === undefined ? goalsTable(rows) : JSON.stringify({ ...options, rows }));
}

async function measureGoals(network: FarApart, options: GoalsOptions, io: Io): Promise<GoalRow[]> {
  const rows: GoalRow[] = [];
  for (const line of options.lines) {
    for (const goal of goalsOf(options)) {
      network.relay.setLines(LINES[line]);
      io.err(`${goal.task} over ${line}: auto ...`);
      const chosen = await choose(goal, network, options, io);
      const own: Omit<GoalRow, 'timesBest'>[] = [];
      for (const method of METHODS) {
        network.relay.setLines(LINES[line]);
        const overflows = countOverflows();
        const reached = await reachWithSeeds(goal, method, network, options, io);
        own.push({ line, task: goal.task, method: method.name, ...reached, expected: chosen.expected(method) });
        io.err(JSON.stringify({ ...own.at(-1)!, ...network.relay.losses, overflows: overflows() }));
      }
      const compared = own.map((row) => ({ ...row, timesBest: relativeToBest(row, own) }));
      const chosenRow = compared.find(({ method }) => method === chosen.name)!;
      rows.push(...compared, { ...chosenRow, method: `auto: ${chosen.name}` });
    }
  }
  return rows;
}

function relativeToBest(
  { seconds }: Pick<GoalRow, 'seconds'>,
  all: readonly Pick<GoalRow, 'seconds'>[],
): number | null {
  const best = Math.min(...all.map((row) => row.seconds ?? Infinity));
  return seconds === null ? null : seconds / best;
}

function goalsOf({ data, text, seeds }: GoalsOptions): Goal[] {
  const digits = { hidden: 256, batchSize: 32, epochs: 100, maxSteps: DIGITS_STEPS, hashEvery: 1000 };
  return [
    ...(data === undefined
      ? []
      : [
          {
            task: 'mnist',
            fields: { job: 'mnist', ...digits, data: { kind: 'url', url: '/data/' } },
            seeds,
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
            seeds: 1,
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
  { tabs }: GoalsOptions,
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

type Reached = Pick<GoalRow, 'seconds' | 'steps' | 'stepMs'>;

/** Ends after the first run that does not reach the goal. */
async function reachWithSeeds(
  goal: Goal,
  method: Method,
  network: FarApart,
  options: GoalsOptions,
  io: Io,
): Promise<Reached> {
  const runs: Run[] = [];
  for (let seed = 1; seed <= goal.seeds && runs.every(({ reached }) => reached); seed++) {
    io.err(`${goal.task}: ${method.name}, seed ${seed} ...`);
    runs.push(await reach(goal, { ...method.fields, seed }, network, options, io));
    io.err(JSON.stringify(runs.at(-1)!));
  }
  const ms = mean(runs.map((run) => run.ms));
  const steps = mean(runs.map((run) => run.steps));
  return { seconds: runs.every(({ reached }) => reached) ? ms / 1000 : null, steps, stepMs: ms / steps };
}

interface Run {
  reached: boolean;
  /** Number of steps, and time since the first step, when the run reached the goal or ended. */
  steps: number;
  ms: number;
}

async function reach(
  goal: Goal,
  fields: Readonly<Record<string, unknown>>,
  network: FarApart,
  { tabs, seconds }: GoalsOptions,
  io: Io,
): Promise<Run> {
  const job = parseJob({ ...goal.fields, ...fields });
  const run: Run = { reached: false, steps: 0, ms: 0 };
  await inTabs(goal, network, tabs, job, io, (event, tab) => {
    if (tab !== 0) return false;
    if (event.type === 'step') {
      run.steps = event.step + 1;
      run.ms = event.at;
    }
    if (event.type === 'evaluation') run.reached ||= goal.isReached(event);
    return run.reached || event.type === 'finished' || run.ms > seconds * 1000;
  });
  return run;
}

function goalsTable(rows: readonly GoalRow[]): string {
  return table(
    ['line', 'task', 'method', 'seconds to the goal', 'times the best', 'steps', 'ms per step', 'ms expected by auto'],
    rows.map(({ line, task, method, seconds, timesBest, steps, stepMs, expected }) => [
      ...[line, task, method, seconds === null ? 'not reached' : seconds.toFixed(1), timesBest?.toFixed(2) ?? ''],
      ...[steps.toFixed(0), stepMs.toFixed(0), expected?.toFixed(0) ?? ''],
    ]),
  );
}

export const goals = defineBenchmark({
  name: 'goals',
  description: 'measure the seconds to a goal with each method, in tabs that are far apart; needs coturn',
  options: [
    tabsOption(4),
    option('--lines <name,..>', 'lines of the tabs', listOf(oneOf(Object.keys(LINES) as LineName[])), [
      'home',
      'phone',
    ] as LineName[]),
    option('--seeds <n>', 'number of runs of the classifier with each method', wholeNumber(1), 3),
    new Option('--data <folder>', "folder with MNIST's IDX files, to train the classifier"),
    new Option('--text <file>', 'text file, to train the language model'),
    option('--seconds <n>', 'time limit of a run', wholeNumber(1), 120),
  ],
  run: benchGoals,
});
