/**
 * `bench pipeline`: measures the time in which stages wait, and compares tabs that hold stages with
 * a tab that holds the whole model: losses, bytes, memory.
 */
import { writeFile } from 'node:fs/promises';
import { InvalidArgumentError, Option } from 'commander';
import { ensureBuilt } from '../../launcher/build.ts';
import type { Io } from '../../launcher/io.ts';
import { PIPELINE_SCHEDULES } from '../../src/spec/pipeline.ts';
import { PeergradError } from '../../src/util/errors.ts';
import { defineBenchmark } from '../command/defineBenchmark.ts';
import { listOf, option } from '../command/options.ts';
import { measureIdle, type IdleRow, type Timeline } from './idle.ts';
import { timelineSvg } from './picture.ts';
import { problemsOf, report, section, type PipelineResult } from './report.ts';
import { lossesOfOneTab, TAB_RUNS, trainTabs, type TabRow } from './tabRuns.ts';
import { World } from '../world/world.ts';

const PARTS = ['idle', 'tabs'] as const;
type Part = (typeof PARTS)[number];

interface PipelineBenchOptions {
  parts: readonly Part[];
  picture?: string;
  json?: true;
}

const IDLE_STAGES = 4;
const IDLE_MICRO_BATCHES = [4, 8, 16];
/** The step that the picture shows. */
const PICTURE = { schedule: '1f1b', microBatches: 8 };

/**
 * @throws (rejects) PeergradError if a loss or a number of bytes is wrong; the result is printed
 *   before.
 */
async function benchPipeline({ parts, picture, json }: PipelineBenchOptions, io: Io): Promise<void> {
  const result: PipelineResult = {};
  if (parts.includes('idle')) result.idle = await idle(picture, io);
  if (parts.includes('tabs')) result.tabs = await tabs(io);
  io.out(json === undefined ? report(result) : JSON.stringify(result));
  const wrong = problemsOf(result);
  if (wrong.length > 0) throw new PeergradError(`Pipelines are not exact: ${wrong.join('; ')}.`);
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
  description: 'measure the time in which stages wait, and compare pipelines with whole models: losses, bytes, memory',
  options: [
    option('--parts <name,..>', `parts to measure: ${PARTS.join(', ')}`, listOf(partOf), [...PARTS]),
    new Option('--picture <file>', 'SVG file for the passes of a step, planned and measured'),
  ],
  run: benchPipeline,
  section,
});
