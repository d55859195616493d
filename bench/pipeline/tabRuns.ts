/** Runs of the language model in real tabs: losses, bytes, memory and waiting times. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Io } from '../../launcher/io.ts';
import { writeFables } from '../../src/jobs/gpt/fables.ts';
import { plainText } from '../../src/jobs/gpt/text.ts';
import { createCorpus, networkSize } from '../../src/jobs/index.ts';
import type { RunResult } from '../../src/protocol/runResult.ts';
import { DEFAULT_JOB, parseJob } from '../../src/spec/job.ts';
import { writeJobFile } from '../../src/spec/jobFile.ts';
import { trainInTabs } from '../training/trainInTabs.ts';
import { chainLayers } from './chainLayers.ts';
import { SCHEDULES, type Schedule } from './schedules.ts';
import { ringMemory, type RankMemory } from './memory.ts';

const STEPS = 3;
/** With five blocks, there are twelve layers. */
export const TAB_MODEL = { ...DEFAULT_JOB.gpt, layers: 5, heads: 4, width: 64, context: 64, dropout: 0.1 };
/** Samples of a step of all ranks. */
export const TAB_SAMPLES = 16;

const BYTES_PER_VALUE = { fp32: 4, fp16: 2 };

/** What a run differs in. */
export interface TabRun {
  stages: number;
  replicas: number;
  schedule: Schedule;
  microBatches: number;
  recompute: boolean;
  codec: keyof typeof BYTES_PER_VALUE;
}

const FOUR: TabRun = {
  stages: 4,
  replicas: 1,
  schedule: '1f1b',
  microBatches: 8,
  recompute: false,
  codec: 'fp32',
};

export const TAB_RUNS: readonly TabRun[] = [
  { ...FOUR, microBatches: 4 },
  FOUR,
  { ...FOUR, microBatches: 16 },
  { ...FOUR, schedule: 'gpipe' },
  { ...FOUR, recompute: true },
  { ...FOUR, schedule: 'gpipe', recompute: true },
  { ...FOUR, codec: 'fp16' },
  { ...FOUR, stages: 2 },
  { ...FOUR, stages: 2, replicas: 2 },
];

export interface TabRow extends TabRun {
  /** Largest relative difference of a step's loss from that of one tab with the whole model. */
  difference: number;
  /** Bytes over a boundary by those of the formula; `null` if replicas average gradients. */
  bytes: number | null;
  idle: { measured: number; plan: number };
  memory: RankRow[];
  stepMs: number;
}

/** Memory of a rank: measured, and by formula. */
export interface RankRow extends RankMemory {
  measured: number;
}

/** Trains one tab with the whole model, and resolves with its losses. */
export async function lossesOfOneTab(io: Io): Promise<readonly number[]> {
  return (await train(1, { batchSize: TAB_SAMPLES }, io)).losses;
}

export async function trainTabs(run: TabRun, expected: readonly number[], io: Io): Promise<TabRow> {
  const { stages, replicas, schedule, microBatches, recompute, codec } = run;
  const tabs = stages * replicas;
  const plan = { batchSize: TAB_SAMPLES / tabs, strategy: 'pipeline', stages, pipelineSchedule: schedule };
  const result = await train(tabs, { ...plan, microBatches, recompute, codec }, io);
  const { context, width, dropout } = TAB_MODEL;
  const rows = Math.ceil(TAB_SAMPLES / replicas / microBatches);
  const chain = chainLayers(networkSize(TAB_MODEL, await vocabulary()), rows, dropout > 0);
  // All replicas have the same layers.
  const layers = result.pipeline!.layers.slice(0, stages);
  const passes = SCHEDULES[schedule](stages, microBatches, { ring: true });
  const memory = ringMemory(passes, chain, layers, { tokens: rows * context, width, recompute });
  return rowOf(run, result, memory, expected);
}

/** The command line has no options for the model's size, so it reads the job from a file. */
async function train(tabs: number, fields: Record<string, unknown>, io: Io): Promise<RunResult> {
  const folder = await mkdtemp(path.join(tmpdir(), 'peergrad-bench-'));
  try {
    const file = path.join(folder, 'job.json');
    await writeFile(file, writeJobFile(parseJob({ job: 'gpt', gpt: TAB_MODEL, maxSteps: STEPS, ...fields })));
    return await trainInTabs(tabs, { file }, io, 'wasm');
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Returns the number of tokens of the built-in text. */
async function vocabulary(): Promise<number> {
  return (await createCorpus(plainText(writeFables()), TAB_MODEL)).tokenizer.size;
}

/** Returns the bytes of `samples` samples over a boundary: 2 d values per token. */
export function boundaryBytes(
  { context, width }: { context: number; width: number },
  samples: number,
  codec: TabRun['codec'],
): number {
  return 2 * width * context * samples * BYTES_PER_VALUE[codec];
}

/** Returns the largest relative difference of two losses of a step. */
export function largestDifference(a: readonly number[], b: readonly number[]): number {
  if (a.length !== b.length) return Infinity;
  return Math.max(...a.map((value, step) => Math.abs(value / b[step]! - 1)));
}

export function rowOf(
  run: TabRun,
  { losses, bytesSentPerRank, gradientBytes, memoryBytesPerRank, pipeline, steps, stepMs }: RunResult,
  memory: readonly RankMemory[],
  expected: readonly number[],
): TabRow {
  const { stages, replicas, codec } = run;
  const sent = bytesSentPerRank.reduce((sum, bytes) => sum + bytes, 0) / steps / stages;
  return {
    ...run,
    difference: largestDifference(losses, expected),
    bytes: replicas === 1 ? sent / (boundaryBytes(TAB_MODEL, TAB_SAMPLES, codec) + gradientBytes / stages) : null,
    idle: pipeline!.idle,
    memory: memory.map((own, rank) => ({ ...own, measured: memoryBytesPerRank[rank]! })),
    stepMs: stepMs.median,
  };
}

/** Returns all bytes of the formula. */
export function sumOf({ state, activations }: RankMemory): number {
  return state + activations;
}
