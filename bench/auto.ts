/**
 * `bench auto`: measures how much sooner a run on slow lines reaches its goal if ranks choose the
 * codec. A run with fp32 and a run with the automatic choice train in real tabs. Each tab has its
 * own host. On the hosts' lines, fp32 communication takes four times as long as a step without
 * communication.
 */
import { ensureBuilt } from '../launcher/build.ts';
import type { Io } from '../launcher/io.ts';
import type { CodecChoice } from '../src/protocol/runResult.ts';
import type { StepTimes } from '../src/protocol/stepTrace.ts';
import type { PlannedCodec } from '../src/spec/job.ts';
import { median } from '../src/util/statistics.ts';
import { theoryBytes } from './allreduce.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import { hostsOption, mnistOption, tabsOption } from './command/options.ts';
import { table } from '../tools/report/table.ts';
import { trainOnHosts } from './training/trainOnHosts.ts';
import { withHosts } from './world/hosts.ts';
import type { Hosts } from './world/world.ts';

interface AutoBenchOptions {
  tabs: number;
  /** Folder with MNIST's files. */
  data: string;
  /** Path of the tool that creates test hosts; see `world/hosts.ts`. */
  hosts: string;
  json?: true;
}

const GOAL = 0.9;
/** Number of steps on uncapped lines. They measure how long a step takes without communication. */
const OPEN_STEPS = 12;
/** The first steps of a run or of a codec, which are not part of the medians. */
const WARM_UP = 2;
/** Number of rounds. Each round has both runs. */
const ROUNDS = 2;
/**
 * Maximum number of steps: about twice as many as are needed for the goal. A run has eight
 * evaluations.
 */
const STEPS = 48;
const PLAN = { job: 'mnist', model: 'mlp', hidden: 256, batchSize: 128, epochs: 100, hashEvery: 1000 };

/** @throws (rejects) PeergradError if a tab fails. */
async function benchAuto({ tabs, data, hosts: tool, json }: AutoBenchOptions, io: Io): Promise<void> {
  await ensureBuilt(io);
  const result = await withHosts({ tool, count: tabs }, async (hosts, limit): Promise<AutoResult> => {
    io.err(`${tabs} tabs train on uncapped lines ...`);
    const open = await trainWith(hosts, data, { codec: 'fp32', maxSteps: OPEN_STEPS }, io);
    const rateKbit = rateFor(open.gradientBytes, tabs, open.run.ownMs);
    await limit(`${rateKbit}kbit`);
    const runs: Record<'fp32' | 'auto', CodecRun[]> = { fp32: [], auto: [] };
    for (let round = 0; round < ROUNDS; round++) {
      for (const codec of ['fp32', 'auto'] as const) {
        io.err(`${tabs} tabs train with codec ${codec} on lines of ${rateKbit} kbit/s ...`);
        runs[codec].push((await trainWith(hosts, data, { codec, maxSteps: STEPS }, io)).run);
      }
    }
    return { tabs, ownMs: open.run.ownMs, rateKbit, ...runs, speedUp: speedUpOf(runs) };
  });
  io.out(json === undefined ? autoTable(result) : JSON.stringify(result));
}

interface Trained {
  run: CodecRun;
  gradientBytes: number;
}

/** Trains until the goal or the last step is reached. */
async function trainWith(
  hosts: Hosts,
  data: string,
  { codec, maxSteps }: { codec: PlannedCodec; maxSteps: number },
  io: Io,
): Promise<Trained> {
  const times: StepTimes[][] = hosts.executables.map(() => []);
  let reachedMs: number | null = null;
  let accuracy = 0;
  let chosen: { step: number; choice: CodecChoice } | null = null;
  let at = 0;
  let gradientBytes = 0;
  const fields = { ...PLAN, codec, maxSteps };
  await trainOnHosts({ hosts, data, fields, isElastic: false }, io, (event, tab) => {
    if (event.type === 'step') times[tab]!.push(event.ms);
    if (tab !== 0) return false;
    if (event.type === 'model') gradientBytes = event.gradientBytes;
    if (event.type === 'codec') chosen = event;
    if (event.type === 'step') at = event.at;
    if (event.type === 'evaluation' && event.accuracy !== null) {
      accuracy = event.accuracy;
      if (accuracy >= GOAL) reachedMs = at;
    }
    return event.type === 'finished' || reachedMs !== null;
  });
  const { step: chosenAt, choice } = chosen ?? { step: 0, choice: null };
  const mediansOf = (pick: (ms: StepTimes) => number): number[] =>
    times.map((own) => median(own.slice(chosenAt + WARM_UP).map(pick)));
  const run: CodecRun = {
    codec,
    reachedMs,
    steps: times[0]!.length,
    accuracy,
    chosenAt,
    choice,
    stepMs: median(mediansOf(({ total }) => total)),
    ownMs: Math.max(...mediansOf(({ total, exposed }) => total - exposed)),
    exposedMs: Math.min(...mediansOf(({ exposed }) => exposed)),
  };
  return { run, gradientBytes };
}

export interface CodecRun {
  codec: string;
  /**
   * Milliseconds from the first step until held-out accuracy reached the goal; `null` if it did
   * not.
   */
  reachedMs: number | null;
  /** Steps until held-out accuracy reached the goal. */
  steps: number;
  /** Held-out accuracy at the last evaluation. */
  accuracy: number;
  /**
   * Medians in milliseconds of steps with the final codec. `stepMs` is the whole step. `ownMs` is
   * the work of the slowest rank without exposed communication. `exposedMs` is the exposed
   * communication of the rank that waits least, because other ranks also wait for slower ranks.
   */
  stepMs: number;
  ownMs: number;
  exposedMs: number;
  /** First step with the final codec. */
  chosenAt: number;
  choice: CodecChoice | null;
}

interface AutoResult {
  tabs: number;
  /**
   * `ownMs` is the time of a step without communication. `rateKbit` is the maximum rate of each
   * host's line.
   */
  ownMs: number;
  rateKbit: number;
  /** The runs of each kind in the order of rounds. */
  fp32: CodecRun[];
  auto: CodecRun[];
  /** fp32's time divided by auto's, over all rounds; `null` if a run did not reach the goal. */
  speedUp: number | null;
}

/** How many times as long as all other work fp32 communication takes. */
const TIMES_OWN = 4;

/**
 * Returns the rate in kbit/s at which communication takes {@link TIMES_OWN} times as long as the
 * rest of a step.
 */
export function rateFor(gradientBytes: number, n: number, ownMs: number): number {
  return Math.max(1, Math.round((theoryBytes(n, gradientBytes) * 8) / (TIMES_OWN * ownMs)));
}

/**
 * @returns fp32's time divided by auto's, over all rounds; `null` if a run did not reach the goal.
 */
export function speedUpOf({ fp32, auto }: Pick<AutoResult, 'fp32' | 'auto'>): number | null {
  const [plain, chosen] = [msOf(fp32), msOf(auto)];
  return plain === null || chosen === null ? null : plain / chosen;
}

function msOf(runs: readonly CodecRun[]): number | null {
  const times = runs.flatMap(({ reachedMs }) => reachedMs ?? []);
  return times.length < runs.length ? null : times.reduce((sum, ms) => sum + ms, 0);
}

function autoTable({ fp32, auto, speedUp }: AutoResult): string {
  const runs = fp32.flatMap((plain, round) => [plain, auto[round]!]);
  const rows = runs.map((run: CodecRun) => [
    run.choice === null ? run.codec : `${run.codec}: ${run.choice.codec} from step ${run.chosenAt + 1} on`,
    ...[run.ownMs, run.exposedMs, run.stepMs].map((ms) => ms.toFixed(0)),
    ...(run.reachedMs === null ? ['-', '-'] : [String(run.steps), (run.reachedMs / 1000).toFixed(1)]),
    `${(100 * run.accuracy).toFixed(1)} %`,
  ]);
  const head = ['codec', 'own work, ms', 'exposed, ms', 'step, ms', 'steps to 90 %', 'seconds', 'final accuracy'];
  return [
    table(head, rows),
    `Speed-up: ${speedUp === null ? 'unknown, because a run did not reach the goal' : `${speedUp.toFixed(2)} times`}.`,
  ].join('\n\n');
}

export function section(result: AutoResult): string {
  const { tabs, ownMs, rateKbit } = result;
  return [
    '## Automatic choice',
    `${tabs} tabs train the mlp with 256 hidden units on MNIST, with 128 images per rank and step. Each tab has a browser on its own host, with a line of ` +
      `${rateKbit} kbit/s. At this rate, fp32 gradients take four times as long as the ${ownMs.toFixed(0)} ms of a step without communication. *Own work* ` +
      'is that of the slowest rank. *Exposed* is the exposed communication of the rank that waits least. *Seconds* is the time on rank 0 until an evaluation on held-out images, which happens every sixth step, first reaches an accuracy of 90 %. ' +
      '(`npm run -s bench -- auto --data DIR --hosts SCRIPT`)',
    autoTable(result),
    'The gain is limited: the first step uses fp32 to measure the line, and a step takes at least as long as its own work.',
  ].join('\n\n');
}

export const auto = defineBenchmark({
  name: 'auto',
  description:
    'measure how much sooner a run on slow lines reaches 90 % accuracy if ranks choose the codec (needs root)',
  options: [tabsOption(4), mnistOption(), hostsOption().makeOptionMandatory()],
  run: benchAuto,
  section,
});
