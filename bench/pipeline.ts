/**
 * `bench pipeline`: compares pipelines and sharded optimizers with ranks that hold whole models:
 * losses, bytes, memory, and the time in which stages wait.
 */
import { writeFile } from 'node:fs/promises';
import { InvalidArgumentError, Option } from 'commander';
import { ensureBuilt } from '../launcher/build.ts';
import type { Io } from '../launcher/io.ts';
import { PIPELINE_SCHEDULES } from '../src/spec/pipeline.ts';
import { PeergradError } from '../src/util/errors.ts';
import { defineBenchmark } from './command/defineBenchmark.ts';
import { listOf, option } from './command/options.ts';
import { CODECS, measureBoundaries, type BoundaryRow } from './pipeline/boundaries.ts';
import {
  largestDifference,
  lossesAlone,
  lossesOf,
  MESHES,
  MICRO_BATCHES,
  STEPS,
  type EqualityRow,
} from './pipeline/equality.ts';
import { measureIdle, type IdleRow, type Timeline } from './pipeline/idle.ts';
import { MODEL_NAMES } from './pipeline/jobs.ts';
import { openWasm } from './pipeline/openWasm.ts';
import { timelineSvg } from './pipeline/picture.ts';
import { problemsOf, report, section, type PipelineResult } from './pipeline/report.ts';
import { compareSharded, OPTIMIZERS, type ShardingRow } from './pipeline/sharding.ts';
import { lossesOfOneTab, TAB_RUNS, trainTabs, type TabRow } from './pipeline/tabRuns.ts';
import { World } from './world/world.ts';

const PARTS = ['equality', 'boundaries', 'sharding', 'idle', 'tabs'] as const;
type Part = (typeof PARTS)[number];

interface PipelineBenchOptions {
  parts: readonly Part[];
  picture?: string;
  json?: true;
}

const SHARDED_RANKS = [2, 4];
const IDLE_STAGES = 4;
const IDLE_MICRO_BATCHES = [4, 8, 16];
/** The step that the picture shows. */
const PICTURE = { schedule: '1f1b', microBatches: 8 };

/**
 * @throws (rejects) PeergradError if a loss, a parameter or a number of bytes is wrong; the result
 *   is printed before.
 */
async function benchPipeline({ parts, picture, json }: PipelineBenchOptions, io: Io): Promise<void> {
  await openWasm();
  const result: PipelineResult = { node: process.version };
  if (parts.includes('equality')) result.equality = await equality(io);
  if (parts.includes('boundaries')) result.boundaries = await boundaries(io);
  if (parts.includes('sharding')) result.sharding = await sharding(io);
  if (parts.includes('idle')) result.idle = await idle(picture, io);
  if (parts.includes('tabs')) result.tabs = await tabs(io);
  io.out(json === undefined ? report(result) : JSON.stringify(result));
  const wrong = problemsOf(result);
  if (wrong.length > 0) throw new PeergradError(`Pipelines or sharded optimizers are not exact: ${wrong.join('; ')}.`);
}

async function equality(io: Io): Promise<EqualityRow[]> {
  const rows: EqualityRow[] = [];
  for (const model of MODEL_NAMES) {
    const expected = await lossesAlone(model, STEPS);
    for (const mesh of MESHES) {
      for (const schedule of PIPELINE_SCHEDULES) {
        io.err(`${model}: ${mesh.replicas} x ${mesh.stages} ranks with ${schedule} ...`);
        const differences: number[] = [];
        for (const microBatches of MICRO_BATCHES) {
          differences.push(largestDifference(await lossesOf(model, mesh, schedule, microBatches, STEPS), expected));
        }
        rows.push({ model, ...mesh, schedule, differences });
      }
    }
  }
  return rows;
}

async function boundaries(io: Io): Promise<BoundaryRow[]> {
  const rows: BoundaryRow[] = [];
  for (const stages of [2, 3, 4]) {
    for (const codec of CODECS) {
      io.err(`Bytes between ${stages} stages with ${codec} ...`);
      rows.push(await measureBoundaries(stages, codec));
    }
  }
  return rows;
}

async function sharding(io: Io): Promise<ShardingRow[]> {
  const rows: ShardingRow[] = [];
  for (const model of MODEL_NAMES) {
    for (const optimizer of OPTIMIZERS) {
      for (const ranks of SHARDED_RANKS) {
        io.err(`${model}: ${optimizer} in ${ranks} shards ...`);
        rows.push(await compareSharded(model, optimizer, ranks));
      }
    }
  }
  return rows;
}

async function idle(picture: string | undefined, io: Io): Promise<IdleRow[]> {
  const rows: IdleRow[] = [];
  let shown: Timeline | null = null;
  const world = await World.open(IDLE_STAGES);
  try {
    for (const schedule of PIPELINE_SCHEDULES) {
      for (const microBatches of IDLE_MICRO_BATCHES) {
        io.err(`${IDLE_STAGES} stages that wait, ${microBatches} micro-batches, ${schedule} ...`);
        const { row, timeline } = await measureIdle(world, schedule, microBatches);
        rows.push(row);
        if (schedule === PICTURE.schedule && microBatches === PICTURE.microBatches) shown = timeline;
      }
    }
  } finally {
    await world.close();
  }
  if (picture !== undefined) {
    const { schedule, microBatches } = PICTURE;
    await writeFile(picture, timelineSvg(shown!, `${schedule}, ${IDLE_STAGES} stages, ${microBatches} micro-batches`));
  }
  return rows;
}

async function tabs(io: Io): Promise<TabRow[]> {
  await ensureBuilt(io);
  const expected = await lossesOfOneTab(io);
  const rows: TabRow[] = [];
  for (const run of TAB_RUNS) rows.push(await trainTabs(run, expected, io));
  return rows;
}

function partOf(text: string): Part {
  const part = PARTS.find((name) => name === text);
  if (part === undefined) throw new InvalidArgumentError(`The parts are ${PARTS.join(', ')}.`);
  return part;
}

export const pipeline = defineBenchmark({
  name: 'pipeline',
  description:
    'compare pipelines and sharded optimizers with whole models: losses, bytes, memory, and the time in which stages wait',
  options: [
    option('--parts <name,..>', `parts to measure: ${PARTS.join(', ')}`, listOf(partOf), [...PARTS]),
    new Option('--picture <file>', 'SVG file for the passes of a step, planned and measured'),
  ],
  run: benchPipeline,
  section,
});
