/** Compares stretches of one run with and without telemetry; pure. */
import { median, quantile } from '../../src/util/statistics.ts';
import { createRng } from '../../src/util/rng.ts';
import type { CpuTime } from './cpuTime.ts';

/** A step: when it was applied, in milliseconds since the run began, and its duration. */
export interface TimedStep {
  step: number;
  at: number;
  ms: number;
}

export interface Comparison {
  /** Median milliseconds from one step to the next, with telemetry and without. */
  fullMs: number;
  reducedMs: number;
  /** Milliseconds of an exchange, once per stretch. */
  exchangeMs: number;
  /** Relative increase of a step's time with telemetry, including its share of an exchange. */
  overhead: number;
  /** 95 % confidence interval by the bootstrap (Efron, 1979): medians of resampled pairs. */
  interval: [number, number];
  /** Interquartile range over pairs of neighbouring stretches. */
  quartiles: [number, number];
  /** Number of pairs. */
  pairs: number;
  /** The same increase from the fastest quarter of all steps: other load only ever adds time. */
  fastOverhead: number;
}

/**
 * The same by CPU time of the browsers' processes: medians of all CPU time, increase without
 * shaders, relative to all.
 */
export interface CpuComparison extends Pick<Comparison, 'fullMs' | 'reducedMs' | 'overhead' | 'interval' | 'pairs'> {}

const RESAMPLES = 2000;

/**
 * @param tested steps before an evaluation, which are left out; so is the first stretch, in which
 *   browsers still compile.
 * @param length steps of a stretch; the first one has telemetry, and after each the ranks are
 *   compared.
 */
export function compareStretches(taken: readonly TimedStep[], tested: ReadonlySet<number>, length: number): Comparison {
  const starts = new Map(taken.map(({ step, at, ms }) => [step, at - ms]));
  const lasts: { full: number[]; reduced: number[] } = { full: [], reduced: [] };
  const stretches: number[] = [];
  const steps: { full: number[]; reduced: number[] } = { full: [], reduced: [] };
  for (let index = 1; index < Math.floor(taken.length / length); index++) {
    const times: number[] = [];
    for (let step = index * length; step < (index + 1) * length; step++) {
      const [from, to] = [starts.get(step), starts.get(step + 1)];
      if (from === undefined || to === undefined || tested.has(step)) continue;
      if ((step + 1) % length !== 0) times.push(to - from);
      else lasts[isFull(index) ? 'full' : 'reduced'].push(to - from);
    }
    stretches[index] = median(times);
    steps[isFull(index) ? 'full' : 'reduced'].push(...times);
  }
  const [fullMs, reducedMs] = [0, 1].map((kind) => median(stretches.filter((_, index) => index % 2 === kind)));
  const exchangeMs = Math.max(0, median(lasts.full) - median(lasts.reduced) - (fullMs! - reducedMs!));
  const pairs = pairsOf(stretches, (full, reduced) => (full + exchangeMs / length - reduced) / reduced);
  const [fastFull, fastReduced] = [quantile(steps.full, 0.25), quantile(steps.reduced, 0.25)];
  return {
    fullMs: fullMs!,
    reducedMs: reducedMs!,
    exchangeMs,
    overhead: median(pairs),
    interval: bootstrap(pairs),
    quartiles: [quantile(pairs, 0.25), quantile(pairs, 0.75)],
    pairs: pairs.length,
    fastOverhead: (fastFull + exchangeMs / length) / fastReduced - 1,
  };
}

/**
 * @param times CPU times by stretch, of all processes after its first step.
 * @param tested as for {@link compareStretches}: here the whole stretch is left out.
 */
export function compareCpu(times: readonly CpuTime[], tested: ReadonlySet<number>, length: number): CpuComparison {
  const tests = new Set([...tested].map((step) => Math.floor(step / length)));
  const stretches: CpuTime[] = [];
  for (let index = 1; index + 1 < times.length; index++) {
    if (tests.has(index)) continue;
    const [from, to] = [times[index]!, times[index + 1]!];
    const part = (kind: keyof CpuTime): number => (to[kind] - from[kind]) / length;
    stretches[index] = { total: part('total'), besideShaders: part('besideShaders') };
  }
  const totals = [0, 1].map((kind) => stretches.flatMap(({ total }, index) => (index % 2 === kind ? [total] : [])));
  const [fullMs, reducedMs] = totals.map(median) as [number, number];
  const pairs = pairsOf(stretches, (full, reduced) => (full.besideShaders - reduced.besideShaders) / reducedMs);
  return { fullMs, reducedMs, overhead: median(pairs), interval: bootstrap(pairs), pairs: pairs.length };
}

/**
 * Results of `more` for each stretch with telemetry and a neighbour without; some stretches may be
 * missing.
 */
function pairsOf<Stretch>(
  stretches: readonly (Stretch | undefined)[],
  more: (full: Stretch, reduced: Stretch) => number,
): number[] {
  return Array.from(stretches, (stretch, index) => [stretch, stretches[index + 1], isFull(index)] as const).flatMap(
    ([first, next, isFirstFull]) => {
      if (first === undefined || next === undefined) return [];
      return [isFirstFull ? more(first, next) : more(next, first)];
    },
  );
}

function bootstrap(values: readonly number[]): [number, number] {
  const rng = createRng(1);
  const medians = Array.from({ length: RESAMPLES }, () => median(values.map(() => values[rng.below(values.length)]!)));
  return [quantile(medians, 0.025), quantile(medians, 0.975)];
}

function isFull(stretch: number): boolean {
  return stretch % 2 === 0;
}
