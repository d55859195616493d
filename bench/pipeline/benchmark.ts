/**
 * `bench pipeline`: measures the time in which stages wait, in real tabs whose passes have equal
 * lengths, and compares it with the plan.
 */
import type { Io } from '../../launcher/io.ts';
import { idleShare } from '../../src/parallel/pipeline/schedules.ts';
import { PIPELINE_SCHEDULE_NAMES } from '../../src/spec/pipeline.ts';
import { median } from '../../src/util/statistics.ts';
import { table } from '../../tools/report/table.ts';
import { defineBenchmark } from '../command/defineBenchmark.ts';
import { tabsOption } from '../command/options.ts';
import { World } from '../world/world.ts';
import { PASS_MS, SCHEDULES, STEPS, type Schedule, type WaitingStep } from './waitingStages.ts';

const MICRO_BATCHES = [4, 8, 16];

interface IdleRow {
  schedule: Schedule;
  microBatches: number;
  /** Share of time in which ranks wait: the median of the measured steps, and (S-1)/(M+S-1). */
  measured: number;
  plan: number;
  /** Median milliseconds of a step, and those of the plan with passes of equal length. */
  stepMs: number;
  planMs: number;
}

interface PipelineResult {
  stages: number;
  rows: IdleRow[];
}

/** @throws (rejects) PeergradError if a tab fails. */
async function measure({ tabs }: { tabs: number }, io: Io): Promise<PipelineResult> {
  const rows: IdleRow[] = [];
  await World.use(tabs, io, {}, async (world) => {
    for (const schedule of PIPELINE_SCHEDULE_NAMES) {
      for (const microBatches of MICRO_BATCHES) {
        io.err(`${tabs} stages that wait, ${microBatches} micro-batches, ${schedule} ...`);
        rows.push(await measureIdle(world, schedule, microBatches));
      }
    }
  });
  return { stages: tabs, rows };
}

async function measureIdle(world: World, schedule: Schedule, microBatches: number): Promise<IdleRow> {
  const plan = SCHEDULES[schedule](world.size, microBatches);
  const ranks = await world.run('waitingStages', { schedule, microBatches });
  const steps = Array.from({ length: STEPS }, (_, step) => ranks.map((own) => own[step]!));
  return {
    ...{ schedule, microBatches, measured: median(steps.map(shareOf)), plan: idleShare(plan) },
    ...{ stepMs: median(steps.map(lengthOf)), planMs: plan.ticks * PASS_MS },
  };
}

/** Returns the share of a step in which ranks computed nothing, as in `RunResult.pipeline.idle`. */
export function shareOf(ranks: readonly WaitingStep[]): number {
  const busy = ranks.flatMap(({ passes }) => passes).reduce((sum, { start, end }) => sum + end - start, 0);
  return 1 - busy / (lengthOf(ranks) * ranks.length);
}

function lengthOf(ranks: readonly WaitingStep[]): number {
  return Math.max(...ranks.map(({ start, end }) => end - start));
}

const percent = (share: number): string => (100 * share).toFixed(1);
const seconds = (ms: number): string => (ms / 1000).toFixed(2);

export function section({ stages, rows }: PipelineResult): string {
  return `## Pipelines

\`npm run -s bench -- pipeline\`: **the passes of a stage wait instead of computing**: ${PASS_MS} ms, forward and backward, by a timer in the tab's worker. Messages and WebRTC
links are those of a training run. *S* is the number of stages, ${stages}, and *M* that of micro-batches. *Idle* is the share of time in which ranks compute nothing. See [features/pipeline.md](features/pipeline.md).

${table(
  ['schedule', 'M', 'idle, %', '(S-1)/(M+S-1), %', 'step, s', 'plan, s'],
  rows.map(({ schedule, microBatches, measured, plan, stepMs, planMs }) => [
    ...[schedule, String(microBatches), percent(measured), percent(plan), seconds(stepMs), seconds(planMs)],
  ]),
)}
`;
}

export const pipeline = defineBenchmark({
  name: 'pipeline',
  description: 'measure the time in which the stages of a pipeline wait, and compare it with the plan',
  options: [tabsOption(4, 'number of stages, each in a tab')],
  measure,
  section,
});
