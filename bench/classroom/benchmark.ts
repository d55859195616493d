/**
 * `bench classroom`: measures a class that trains in many real tabs, with every algorithm in turn:
 * the time from the first join to the first step, step times, memory, and the time until tabs train
 * together again after some have left, and after as many have joined.
 */
import { ensureBuilt } from '../../launcher/build.ts';
import type { Io } from '../../launcher/io.ts';
import { wholeNumber } from '../../launcher/options/jobOptions.ts';
import { MAX_WORLD_SIZE } from '../../src/protocol/scalars.ts';
import type { StepTimes } from '../../src/protocol/stepTrace.ts';
import { ALGORITHM_NAMES, type AlgorithmName } from '../../src/spec/algorithms.ts';
import { UsageError } from '../../src/util/errors.ts';
import { mediansOfFields } from '../../src/util/statistics.ts';
import { Classroom } from './classroom.ts';
import { defineBenchmark } from '../command/defineBenchmark.ts';
import { listOf, oneOf, option } from '../command/options.ts';
import { table } from '../../tools/report/table.ts';

interface ClassroomOptions {
  tabs: number;
  algorithms: readonly AlgorithmName[];
}

/** The algorithm of rooms that are opened on the page, and that of the library. */
const ALGORITHMS: readonly AlgorithmName[] = ['ring', 'auto'];
/** Guests in a browser; as many leave, and join. */
const CHURN = 5;
/** The first steps of a run, which are not part of the medians, and measured steps. */
const WARM_UP = 3;
const MEASURED = 20;
/** The fewest tabs: a host, and guests in two browsers. */
const MIN_TABS = 3;

/** @throws (rejects) UsageError if this is not Linux; PeergradError if a tab fails. */
async function measure({ tabs, algorithms }: ClassroomOptions, io: Io): Promise<ClassroomResult> {
  if (process.platform !== 'linux') {
    throw new UsageError('classroom reads the memory of processes from /proc, which only Linux has. Run it on Linux.');
  }
  await ensureBuilt(io);
  const runs: ClassRun[] = [];
  for (const algorithm of algorithms) runs.push(await runClass(tabs, algorithm, io));
  return { tabs, runs };
}

export interface ClassRun {
  algorithm: AlgorithmName;
  /** The algorithms that sent gradients, in the order of their first use. */
  used: readonly string[];
  /** Seconds from the host's admission to the first step. All guests join in this time. */
  secondsToFirstStep: number;
  /** Median milliseconds of a step and of its parts, over all tabs and steps before the churn. */
  stepMs: StepTimes;
  /** Megabytes of all browsers' processes during the run, divided by the number of tabs. */
  memoryMbPerTab: number;
  /** Number of tabs that left at once; as many joined afterwards. */
  left: number;
  /** Seconds until every remaining tab has taken a step without the tabs that left. */
  secondsAfterLeave: number;
  /** Seconds from the opening of the new tabs until all tabs have taken a step together. */
  secondsAfterJoin: number;
}

interface ClassroomResult {
  tabs: number;
  runs: readonly ClassRun[];
}

async function runClass(tabs: number, algorithm: AlgorithmName, io: Io): Promise<ClassRun> {
  io.err(`A class of ${tabs} tabs trains with the algorithm ${algorithm}.`);
  // With few tabs, one browser with guests must remain.
  const groupSize = Math.min(CHURN, Math.floor((tabs - 1) / 2));
  const room = await Classroom.open({ tabs, algorithm, groupSize }, io);
  try {
    const { register } = room;
    const secondsToFirstStep = await room.begin();
    await room.train(WARM_UP + MEASURED);
    const stepMs = mediansOfFields(register.steps.filter(({ step }) => step >= WARM_UP).map(({ ms }) => ms));
    const memoryMbPerTab = room.memory() / tabs / 1e6;
    const { left, seconds: secondsAfterLeave } = await room.leave();
    const secondsAfterJoin = await room.grow(left);
    return {
      ...{ algorithm, used: [...register.algorithms], secondsToFirstStep, stepMs, memoryMbPerTab },
      ...{ left, secondsAfterLeave, secondsAfterJoin },
    };
  } finally {
    await room.close();
  }
}

export function section({ tabs, runs }: ClassroomResult): string {
  const row = (name: string, valueOf: (run: ClassRun) => string): string[] => [name, ...runs.map(valueOf)];
  const rows = table(
    ['class', ...runs.map(({ algorithm }) => algorithm)],
    [
      row('algorithm of the gradients', ({ used }) => used.join(', ')),
      row('first join to first step, s', ({ secondsToFirstStep }) => secondsToFirstStep.toFixed(1)),
      row('step, ms', ({ stepMs }) => stepMs.total.toFixed(0)),
      row('communicate, ms', ({ stepMs }) => stepMs.communicate.toFixed(0)),
      row('memory of a tab, MB', ({ memoryMbPerTab }) => memoryMbPerTab.toFixed(0)),
      row('leaving to first step of all others, s', ({ secondsAfterLeave }) => secondsAfterLeave.toFixed(1)),
      row('joining to first step of all, s', ({ secondsAfterJoin }) => secondsAfterJoin.toFixed(1)),
    ],
  );
  return `## A class of ${tabs}

\`npm run -s bench -- classroom\`: ${tabs} real tabs train the mlp on WebAssembly, with 8 images per rank and step.
Guests share browsers in groups of ${runs[0]!.left}. The browser of one group is killed
during the run, and then a new browser with as many tabs joins. *auto* is the choice of the cost model. Step times are medians over all tabs and
over ${MEASURED} steps. All tabs share the same cores.

${rows}
`;
}

export const classroom = defineBenchmark({
  name: 'classroom',
  description: 'measure a class in real tabs with the ring and with auto, while tabs leave and join',
  options: [
    option('--tabs <n>', 'number of tabs', wholeNumber(MIN_TABS, MAX_WORLD_SIZE), 30),
    option('--algorithms <name,..>', 'algorithms to measure', listOf(oneOf(ALGORITHM_NAMES)), [...ALGORITHMS]),
  ],
  measure,
  section,
});
