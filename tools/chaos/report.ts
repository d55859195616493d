/**
 * Computes the report of a run under faults. The functions are pure; their input is the faults and
 * the tabs' events.
 */
import type { EngineEvent } from '../../src/protocol/events.ts';
import { STRATEGIES } from '../../src/spec/strategies.ts';
import { median } from '../../src/util/statistics.ts';
import { bringsTab, type Fault, FAULT_KINDS, type FaultKind, losesTab } from './faults.ts';

/** Types of the events that the report needs. */
const REPORTED = ['generation', 'model', 'step', 'hashes', 'evaluation', 'finished', 'failed'] as const;
export type ReportedEvent = Extract<EngineEvent, { type: (typeof REPORTED)[number] }>;

export function isReported(event: EngineEvent): event is ReportedEvent {
  return REPORTED.some((type) => type === event.type);
}

export interface Observation {
  /** When the event arrived, in milliseconds of the launcher's clock. */
  at: number;
  /** Name of the tab; a tab that replaces a lost one has a different name. */
  tab: string;
  event: ReportedEvent;
}

/** A summary of times in milliseconds. */
interface Summary {
  median: number;
  max: number;
}

type PerKind<Value> = Partial<Record<FaultKind, Value>>;

export interface ChaosReport {
  faults: PerKind<number>;
  /** Number of steps. */
  steps: number;
  /** Samples that no step of their epoch used, up to the final observed step. */
  samplesSkipped: number;
  /** Samples that an epoch used more than once. */
  samplesRepeated: number;
  /** Steps after which not all tabs had the same state. */
  hashMismatches: number;
  /** Times from a fault until training continued; see {@link recoveredAt}. */
  recoveryMs: PerKind<Summary>;
  /** Number of faults after which training did not continue, although the run had not ended. */
  unrecovered: PerKind<number>;
  /** The longest times without a step during a fault. */
  pauseMs: PerKind<Summary>;
  /** The median time between two steps, over the whole run. */
  stepGapMs: number;
  /** Times from the end of a freeze or cut until the tab trained with the others again. */
  returnMs: PerKind<Summary>;
  /** Number of generations that trained, without the first. */
  membershipChanges: number;
  /** All different world sizes, in the order of their first occurrence. */
  worldSizes: number[];
  /** Whether the run ended. */
  finished: boolean;
  /** Accuracy of the final evaluation; `null` if there was none. */
  accuracy: number | null;
  /** Every fault, with its own times. */
  schedule: FaultOutcome[];
}

interface FaultOutcome extends Pick<Fault, 'kind' | 'tab'> {
  /** Milliseconds since the first step. */
  atMs: number;
  /**
   * `recoveryMs` is `null` if training did not continue. `returnMs` is `null` if the tab did not
   * return or was never away.
   */
  recoveryMs: number | null;
  returnMs: number | null;
  pauseMs: number;
}

/** Builds the report; `observations` and `faults` are in the order of time. */
export function reportOf(observations: readonly Observation[], faults: readonly Fault[]): ChaosReport {
  const steps = stepsOf(observations);
  const { skipped, repeated } = countSamples(observations, countedSteps(observations, steps));
  const arrivals = firstArrivals(steps);
  const begunAt = arrivals[0] ?? 0;
  const schedule = faults.map((fault): FaultOutcome => ({
    kind: fault.kind,
    tab: fault.tab,
    atMs: Math.round(fault.at - begunAt),
    recoveryMs: since(fault.at, recoveredAt(fault, observations)),
    returnMs: since(fault.undoneAt, returnedAt(fault, observations)),
    pauseMs: Math.round(longestPause(arrivals, fault)),
  }));
  const generations = trainedGenerations(observations);
  const evaluations = observations.map(({ event }) => accuracyOf(event)).filter((accuracy) => accuracy !== null);
  return {
    faults: perKind(faults, (those) => those.length),
    steps: arrivals.length,
    samplesSkipped: skipped,
    samplesRepeated: repeated,
    hashMismatches: countMismatches(observations),
    recoveryMs: perKind(schedule, (those) => summaryOf(those.map(({ recoveryMs }) => recoveryMs))),
    unrecovered: perKind(
      faults.filter((fault) => !endsAfter(fault.at, observations) && recoveredAt(fault, observations) === null),
      (those) => those.length,
    ),
    pauseMs: perKind(schedule, (those) => summaryOf(those.map(({ pauseMs }) => pauseMs))),
    stepGapMs: Math.round(median(arrivals.slice(1).map((at, i) => at - arrivals[i]!))),
    returnMs: perKind(schedule, (those) => summaryOf(those.map(({ returnMs }) => returnMs))),
    membershipChanges: Math.max(0, generations.length - 1),
    worldSizes: [...new Set(generations.map(({ worldSize }) => worldSize))],
    finished: endsAfter(Number.NEGATIVE_INFINITY, observations),
    accuracy: evaluations.at(-1) ?? null,
    schedule,
  };
}

/**
 * Returns when training continued after `fault`; `null` if it has not continued (yet).
 *
 * - After a lost tab: the first step of another tab in a later generation; after a lost connection:
 *   the first step of any tab in a later generation. A step of the old generation may also arrive
 *   after the fault, but proves nothing.
 * - After an added tab: the first step of this tab.
 * - After a fault of the server: the next step.
 */
export function recoveredAt(fault: Fault, observations: readonly Observation[]): number | null {
  const { kind, at, tab } = fault;
  if (bringsTab(kind)) return stepAfter(at, observations, (step) => step.tab === tab);
  if (kind === 'server') return stepAfter(at, observations, () => true);
  const before = generationAt(at, observations);
  const survives = (name: string): boolean => !losesTab(kind) || name !== tab;
  return stepAfter(at, observations, (step) => step.generation > before && survives(step.tab));
}

/**
 * Returns when a tab that was frozen or cut off trained again, in a later generation; `null` if it
 * has not (yet).
 */
export function returnedAt(fault: Fault, observations: readonly Observation[]): number | null {
  if (fault.undoneAt === null) return null;
  const before = generationAt(fault.at, observations);
  return stepAfter(fault.undoneAt, observations, (step) => step.generation > before && step.tab === fault.tab);
}

/** Returns whether the run ended after this time. */
function endsAfter(at: number, observations: readonly Observation[]): boolean {
  return observations.some((seen) => seen.at > at && seen.event.type === 'finished');
}

/** A step as a tab reported it. `samples` is the number of samples in the step's window. */
interface Step {
  at: number;
  tab: string;
  /** The generation in which the step was taken. */
  generation: number;
  step: number;
  epoch: number;
  offset: number;
  samples: number;
}

function stepsOf(observations: readonly Observation[]): Step[] {
  const generations = new Map<string, number>();
  const steps: Step[] = [];
  for (const { at, tab, event } of observations) {
    if (event.type === 'generation') generations.set(tab, event.generation);
    if (event.type !== 'step') continue;
    const { step, epoch, offset, samples } = event;
    steps.push({ at, tab, generation: generations.get(tab) ?? 0, step, epoch, offset, samples });
  }
  return steps;
}

function stepAfter(at: number, observations: readonly Observation[], counts: (step: Step) => boolean): number | null {
  return stepsOf(observations).find((step) => step.at > at && counts(step))?.at ?? null;
}

/** Returns the latest generation that at least one tab had reported by this time. */
function generationAt(at: number, observations: readonly Observation[]): number {
  const known = observations
    .filter((seen) => seen.at <= at)
    .map(({ event }) => (event.type === 'generation' ? event.generation : 0));
  return known.reduce((latest, generation) => Math.max(latest, generation), 0);
}

/**
 * Returns the steps whose samples count, with the samples of all ranks. For most strategies, these
 * are all steps, as they were reported. If ranks train alone between exchanges, a step is reported
 * with the samples of one rank. Ranks then have equal shares, from which the samples of all ranks
 * are computed. A new generation repeats the steps since the latest exchange, so the earlier
 * reports of these steps do not count.
 */
function countedSteps(observations: readonly Observation[], steps: readonly Step[]): readonly Step[] {
  const batches = new Map<number, number>();
  for (const { event } of observations) {
    if (event.type !== 'generation' || STRATEGIES[event.job.strategy].exchanges !== 'parameters') continue;
    batches.set(event.generation, event.job.batchSize * event.worldSize);
  }
  if (batches.size === 0) return steps;
  const { size } = epochsOf(observations);
  const firsts = new Map<number, number>();
  for (const { generation, step } of steps) firsts.set(generation, Math.min(step, firsts.get(generation) ?? step));
  return steps
    .filter(({ generation, step }) => [...firsts].every(([later, first]) => later <= generation || first > step))
    .map((step) => ({ ...step, samples: Math.min(batches.get(step.generation) ?? 0, size - step.offset) }));
}

/**
 * Counts the samples that no step used, and the samples that were used too often. Every step number
 * has one window of samples, which every tab that took the step reports. The windows of an epoch
 * must follow each other without gap or overlap, up to the epoch's final sample.
 */
function countSamples(
  observations: readonly Observation[],
  steps: readonly Step[],
): { skipped: number; repeated: number } {
  let skipped = 0;
  let repeated = 0;
  const windows = new Map<string, Step>();
  const applied = new Set<string>();
  for (const step of steps) {
    // If a tab takes a step twice, the samples are repeated.
    const own = `${step.tab} ${step.step}`;
    if (applied.has(own)) repeated += step.samples;
    applied.add(own);
    // If tabs report different windows of a step, both windows are used.
    windows.set([step.step, step.epoch, step.offset, step.samples].join(' '), step);
  }
  const begun = steps.reduce((latest, { epoch }) => Math.max(latest, epoch), 0);
  const { size, due } = epochsOf(observations);
  for (let epoch = 0; epoch <= Math.max(begun, due - 1); epoch++) {
    let done = 0;
    const own = [...windows.values()].filter((step) => step.epoch === epoch);
    for (const { offset, samples } of own.sort((a, b) => a.offset - b.offset)) {
      skipped += Math.max(0, offset - done);
      repeated += Math.max(0, Math.min(done, offset + samples) - offset);
      done = Math.max(done, offset + samples);
    }
    if (epoch < begun || epoch < due) skipped += Math.max(0, size - done);
    // If the windows reach beyond the end of the epoch, the samples beyond it count as repeated.
    repeated += Math.max(0, done - size);
  }
  return { skipped, repeated };
}

/**
 * Returns the number of samples per epoch (`size`), and how many epochs must be complete (`due`):
 * all epochs if the run has finished and has no maximum number of steps, otherwise 0.
 */
function epochsOf(observations: readonly Observation[]): { size: number; due: number } {
  let size = 0;
  let due = 0;
  let isFinished = false;
  for (const { event } of observations) {
    if (event.type === 'model') size = event.trainSamples;
    if (event.type === 'generation' && event.job.maxSteps === null) due = event.job.epochs;
    if (event.type === 'finished') isFinished = true;
  }
  return { size, due: isFinished ? due : 0 };
}

/**
 * Returns the number of steps after which states differed, within one tab's report or between two
 * tabs. If the final states of the run differ, this counts as one more step.
 */
function countMismatches(observations: readonly Observation[]): number {
  const states = new Map<number | 'end', Set<string>>();
  const mismatches = new Set<number | 'end'>();
  const compare = (step: number | 'end', hashes: readonly string[]): void => {
    const known = states.get(step) ?? new Set();
    for (const hash of hashes) known.add(hash);
    states.set(step, known);
    if (known.size > 1) mismatches.add(step);
  };
  for (const { event } of observations) {
    if (event.type === 'hashes') {
      compare(event.step, event.hashes);
      if (!event.agree) mismatches.add(event.step);
    } else if (event.type === 'finished') {
      compare('end', event.result.stateHash);
    }
  }
  return mismatches.size;
}

/** Returns the generations in which a step was taken, in order. */
function trainedGenerations(observations: readonly Observation[]): { generation: number; worldSize: number }[] {
  const worldSizes = new Map<number, number>();
  for (const { event } of observations)
    if (event.type === 'generation') worldSizes.set(event.generation, event.worldSize);
  const generations = [...new Set(stepsOf(observations).map(({ generation }) => generation))].sort((a, b) => a - b);
  return generations.map((generation) => ({ generation, worldSize: worldSizes.get(generation) ?? 0 }));
}

function accuracyOf(event: ReportedEvent): number | null {
  if (event.type === 'evaluation') return event.accuracy;
  return event.type === 'finished' ? event.result.accuracy : null;
}

/** Returns when each step was first reported, in order. */
function firstArrivals(steps: readonly Step[]): number[] {
  const first = new Map<number, number>();
  for (const { step, at } of steps) if (!first.has(step)) first.set(step, at);
  return [...first.values()].sort((a, b) => a - b);
}

/**
 * Returns the longest period without steps among the periods that overlap the fault. A period is
 * between two steps, or between a step and the end of the fault.
 */
function longestPause(arrivals: readonly number[], { at, endedAt }: Fault): number {
  const before = arrivals.findLast((arrival) => arrival <= at) ?? at;
  const times = [before, ...arrivals.filter((arrival) => arrival > at && arrival < endedAt), endedAt];
  return Math.max(...times.slice(1).map((time, i) => time - times[i]!));
}

/** Returns whole milliseconds, because fractions are noise. */
function since(from: number | null, to: number | null): number | null {
  return from === null || to === null ? null : Math.round(to - from);
}

/** Applies `summarize` to the elements of each kind that occurs. */
function perKind<Each extends { kind: FaultKind }, Value>(
  all: readonly Each[],
  summarize: (those: Each[]) => Value | null,
): PerKind<Value> {
  const pairs = FAULT_KINDS.map((kind) => {
    const those = all.filter((each) => each.kind === kind);
    return [kind, those.length === 0 ? null : summarize(those)] as const;
  });
  return Object.fromEntries(pairs.filter(([, value]) => value !== null));
}

/** Returns the summary of the known values; `null` if there are none. */
function summaryOf(all: readonly (number | null)[]): Summary | null {
  const known = all.filter((ms) => ms !== null);
  return known.length === 0 ? null : { median: median(known), max: Math.max(...known) };
}
