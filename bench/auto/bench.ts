/**
 * `bench auto`: how much sooner a run learns whose ranks choose their codec, where lines are slow.
 * Two runs in real tabs, each on a host of its own, over lines on which fp32 communication takes
 * four times as long as a step without it.
 */
import { ensureBuilt } from '../../launcher/build.ts';
import type { Io } from '../../launcher/io.ts';
import type { CodecChoice } from '../../src/protocol/runResult.ts';
import type { StepTimes } from '../../src/protocol/stepTrace.ts';
import type { PlannedCodec } from '../../src/spec/job.ts';
import { median } from '../../src/util/statistics.ts';
import { trainOnHosts } from '../trainOnHosts.ts';
import { withHosts } from '../world/hosts.ts';
import type { Hosts } from '../world/world.ts';
import { rateFor, soonerOf, type AutoResult, type Learned } from './figures.ts';
import { autoTable } from './section.ts';

export interface AutoBenchOptions {
  tabs: number;
  /** MNIST's files. */
  data: string;
  /** A script as in `world/hosts.ts`. */
  hosts: string;
  json?: true;
}

const GOAL = 0.9;
/** Steps on open lines that say how long one takes by itself. */
const OPEN_STEPS = 12;
/** Left out of medians: the first steps of a run, or by a codec. */
const WARM_UP = 2;
/** Of both, in turn. */
const ROUNDS = 2;
/** Twice what reaches the goal; tests come eight times in so many. */
const STEPS = 48;
const PLAN = { job: 'mnist', model: 'mlp', hidden: 256, batchSize: 128, epochs: 100, hashEvery: 1000 };

/** @throws (rejects) PeergradError where a tab fails. */
export async function benchAuto({ tabs, data, hosts: tool, json }: AutoBenchOptions, io: Io): Promise<void> {
  await ensureBuilt(io);
  const result = await withHosts({ tool, count: tabs }, async (hosts, limit): Promise<AutoResult> => {
    io.err(`${tabs} tabs train on open lines ...`);
    const open = await learn(hosts, data, { codec: 'fp32', maxSteps: OPEN_STEPS }, io);
    const rateKbit = rateFor(open.gradientBytes, tabs, open.learned.ownMs);
    await limit(`${rateKbit}kbit`);
    const runs: Record<'fp32' | 'auto', Learned[]> = { fp32: [], auto: [] };
    for (let round = 0; round < ROUNDS; round++) {
      for (const codec of ['fp32', 'auto'] as const) {
        io.err(`${tabs} tabs train with ${codec}, each line ${rateKbit} kbit/s ...`);
        runs[codec].push((await learn(hosts, data, { codec, maxSteps: STEPS }, io)).learned);
      }
    }
    return { tabs, ownMs: open.learned.ownMs, rateKbit, ...runs, sooner: soonerOf(runs) };
  });
  io.out(json === undefined ? autoTable(result) : JSON.stringify(result));
}

interface Trained {
  learned: Learned;
  gradientBytes: number;
}

/** Until the goal is reached, or the steps are over. */
async function learn(
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
    return reachedMs !== null;
  });
  const { step: chosenAt, choice } = chosen ?? { step: 0, choice: null };
  const mediansOf = (pick: (ms: StepTimes) => number): number[] =>
    times.map((own) => median(own.slice(chosenAt + WARM_UP).map(pick)));
  const learned: Learned = {
    ...{ codec, reachedMs, steps: times[0]!.length, accuracy, chosenAt, choice },
    stepMs: median(mediansOf(({ total }) => total)),
    ownMs: Math.max(...mediansOf(({ total, exposed }) => total - exposed)),
    exposedMs: Math.min(...mediansOf(({ exposed }) => exposed)),
  };
  return { learned, gradientBytes };
}
