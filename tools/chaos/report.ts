/**
 * What a run under faults is judged by: pure functions of what its tabs told, and of the faults.
 */
import type { EngineEvent } from '../../src/protocol/events.ts';
import { median } from '../../src/util/statistics.ts';
import { bringsTab, type Fault, FAULT_KINDS, type FaultKind, losesTab } from './faults.ts';

/** What a judgement needs of all that a tab tells. */
const HEARD = ['generation', 'model', 'step', 'hashes', 'evaluation', 'finished', 'failed'] as const;
export type HeardEvent = Extract<EngineEvent, { type: (typeof HEARD)[number] }>;

export function isHeard(event: EngineEvent): event is HeardEvent {
  return HEARD.some((type) => type === event.type);
}

export interface Observation {
  /** When it arrived, milliseconds of the launcher's clock. */
  at: number;
  /** Of one life of a tab: one that joins in a lost one's place has another name. */
  tab: string;
  event: HeardEvent;
}

/** Milliseconds. */
export interface Spread {
  median: number;
  max: number;
}

type PerKind<Value> = Partial<Record<FaultKind, Value>>;

export interface ChaosReport {
  faults: PerKind<number>;
  /** Steps applied. */
  steps: number;
  /** Samples of a pass over the data that no step had, up to the last step seen. */
  samplesSkipped: number;
  /** Samples that a pass had once more than once. */
  samplesRepeated: number;
  /** Steps after which not all tabs had the same state. */
  hashMismatches: number;
  /** From a fault until training went on, see {@link recoveredAt}. */
  recoveryMs: PerKind<Spread>;
  /** Faults after which it did not, although the run had not come to its end. */
  unrecovered: PerKind<number>;
  /** The longest time without a step while a fault was about. */
  pauseMs: PerKind<Spread>;
  /** The median time between two steps of the whole run. */
  stepGapMs: number;
  /** From the end of a tab's freeze or cut until it trained with the others again. */
  returnMs: PerKind<Spread>;
  /** Memberships that trained, less the first. */
  membershipChanges: number;
  /** Each once, in the order of their first appearance. */
  worldSizes: number[];
  /** Whether the run came to its end. */
  finished: boolean;
  /**
   * Share of held-out samples classified right when they were last tested; `null` where they never
   * were.
   */
  accuracy: number | null;
  /** Every fault, with its own times. */
  schedule: FaultOutcome[];
}

interface FaultOutcome extends Pick<Fault, 'kind' | 'tab'> {
  /** Since the first step. */
  atMs: number;
  /**
   * `null` where training did not go on, or a tab did not come back, or had none to come back from.
   */
  recoveryMs: number | null;
  returnMs: number | null;
  pauseMs: number;
}

/** `observations` and `faults` in the order of time. */
export function reportOf(observations: readonly Observation[], faults: readonly Fault[]): ChaosReport {
  const steps = stepsOf(observations);
  const { skipped, repeated } = countSamples(observations, steps);
  const arrivals = firstArrivals(steps);
  const begunAt = arrivals[0] ?? 0;
  const schedule = faults.map((fault): FaultOutcome => ({
    kind: fault.kind,
    tab: fault.tab,
    atMs: Math.round(fault.at - begunAt),
    recoveryMs: since(fault.at, recoveredAt(fault, observations)),
    returnMs: since(fault.curedAt, returnedAt(fault, observations)),
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
    recoveryMs: perKind(schedule, (those) => spreadOf(those.map(({ recoveryMs }) => recoveryMs))),
    unrecovered: perKind(
      faults.filter((fault) => !endsAfter(fault.at, observations) && recoveredAt(fault, observations) === null),
      (those) => those.length,
    ),
    pauseMs: perKind(schedule, (those) => spreadOf(those.map(({ pauseMs }) => pauseMs))),
    stepGapMs: Math.round(median(arrivals.slice(1).map((at, i) => at - arrivals[i]!))),
    returnMs: perKind(schedule, (those) => spreadOf(those.map(({ returnMs }) => returnMs))),
    membershipChanges: Math.max(0, generations.length - 1),
    worldSizes: [...new Set(generations.map(({ worldSize }) => worldSize))],
    finished: endsAfter(Number.NEGATIVE_INFINITY, observations),
    accuracy: evaluations.at(-1) ?? null,
    schedule,
  };
}

/**
 * When training had gone on after `fault`; `null` where it has not (yet).
 *
 * - A tab was lost, or a connection: another tab's first step (any tab's, for a connection) in a
 *   later membership. A step of the old one may arrive after the fault, and says nothing.
 * - A tab was brought: its first step.
 * - The server: the next step.
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
 * When the tab of a freeze or cut trained again, in a later membership; `null` where it has not
 * (yet).
 */
export function returnedAt(fault: Fault, observations: readonly Observation[]): number | null {
  if (fault.curedAt === null) return null;
  const before = generationAt(fault.at, observations);
  return stepAfter(fault.curedAt, observations, (step) => step.generation > before && step.tab === fault.tab);
}

/** Whether the run came to its end after this time. */
function endsAfter(at: number, observations: readonly Observation[]): boolean {
  return observations.some((seen) => seen.at > at && seen.event.type === 'finished');
}

/** A step as a tab told it. `samples` are the window's. */
interface Step {
  at: number;
  tab: string;
  /** The membership it was taken in. */
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

/** The latest membership that any tab had come to know. */
function generationAt(at: number, observations: readonly Observation[]): number {
  const known = observations
    .filter((seen) => seen.at <= at)
    .map(({ event }) => (event.type === 'generation' ? event.generation : 0));
  return known.reduce((latest, generation) => Math.max(latest, generation), 0);
}

/**
 * Samples that no step had, and those that steps had too often. A step number has one window of
 * samples, told by every tab that applied it; windows follow each other through a pass without gap
 * or overlap, up to its last sample before the next pass.
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
    // One tab may not apply a step twice, whatever the others do.
    const own = `${step.tab} ${step.step}`;
    if (applied.has(own)) repeated += step.samples;
    applied.add(own);
    // Tabs that differ about a step's window have each used theirs up.
    windows.set([step.step, step.epoch, step.offset, step.samples].join(' '), step);
  }
  const begun = steps.reduce((latest, { epoch }) => Math.max(latest, epoch), 0);
  const { size, due } = passesOf(observations);
  for (let pass = 0; pass <= Math.max(begun, due - 1); pass++) {
    let done = 0;
    const own = [...windows.values()].filter(({ epoch }) => epoch === pass);
    for (const { offset, samples } of own.sort((a, b) => a.offset - b.offset)) {
      skipped += Math.max(0, offset - done);
      repeated += Math.max(0, Math.min(done, offset + samples) - offset);
      done = Math.max(done, offset + samples);
    }
    if (pass < begun || pass < due) skipped += Math.max(0, size - done);
    // There are no more of them: some must have been taken again.
    repeated += Math.max(0, done - size);
  }
  return { skipped, repeated };
}

/** Samples of a pass, and how many passes must be there: all, once the run has come to its end. */
function passesOf(observations: readonly Observation[]): { size: number; due: number } {
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
 * Steps after which states differed: within what one tab told, or between what two told. The end
 * counts as one more.
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

/** Memberships in which a step was taken, in order. */
function trainedGenerations(observations: readonly Observation[]): { generation: number; worldSize: number }[] {
  const worldSizes = new Map<number, number>();
  for (const { event } of observations)
    if (event.type === 'generation') worldSizes.set(event.generation, event.worldSize);
  const generations = [...new Set(stepsOf(observations).map(({ generation }) => generation))].sort((a, b) => a - b);
  return generations.map((generation) => ({ generation, worldSize: worldSizes.get(generation) ?? 0 }));
}

function accuracyOf(event: HeardEvent): number | null {
  if (event.type === 'evaluation') return event.accuracy;
  return event.type === 'finished' ? event.result.accuracy : null;
}

/** When each step was first heard of, in order. */
function firstArrivals(steps: readonly Step[]): number[] {
  const first = new Map<number, number>();
  for (const { step, at } of steps) if (!first.has(step)) first.set(step, at);
  return [...first.values()].sort((a, b) => a - b);
}

/**
 * The longest time between two steps, or a step and the fault's end, that reaches into the fault's
 * time.
 */
function longestPause(arrivals: readonly number[], { at, endedAt }: Fault): number {
  const before = arrivals.findLast((arrival) => arrival <= at) ?? at;
  const times = [before, ...arrivals.filter((arrival) => arrival > at && arrival < endedAt), endedAt];
  return Math.max(...times.slice(1).map((time, i) => time - times[i]!));
}

/** Whole milliseconds: finer is noise. */
function since(from: number | null, to: number | null): number | null {
  return from === null || to === null ? null : Math.round(to - from);
}

/** What `summarize` makes of each kind's, for kinds that there are any of. */
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

/** Of those that are known; `null` where none is. */
function spreadOf(all: readonly (number | null)[]): Spread | null {
  const known = all.filter((ms) => ms !== null);
  return known.length === 0 ? null : { median: median(known), max: Math.max(...known) };
}
