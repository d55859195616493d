/**
 * What those who only watch are told of a run: some of the engine events of rank 0, as JSON text.
 * The signaling server hands the text on without a look at it, so both ends check it: who tells
 * sends only what fits, who watches believes nothing else.
 */
import * as v from 'valibot';
import { parseJson } from '../util/json.ts';
import {
  CodecEvent,
  ConfusionEvent,
  GenerationEvent,
  EvaluationEvent,
  FinishedEvent,
  HashesEvent,
  LessonEvent,
  LinkEvent,
  ModelEvent,
  RanksEvent,
  SampleEvent,
  StepEvent,
  TraceEvent,
} from './runEvents.ts';
import { RateTest, RunResultSchema, type RunResult } from './runResult.ts';
import type { EngineEvent } from './events.ts';
import { HopEvent, MAX_HOPS } from './stepTrace.ts';

/** Of numbers of which there are too many to tell. */
const none = v.pipe(v.array(v.number()), v.maxLength(0));

/**
 * Without the confusion, which is told apart, and what a language model wrote: the end must fit a
 * digest.
 */
const Result = v.object({
  ...v.omit(RunResultSchema, ['best', 'confusion', 'samples']).entries,
  losses: none,
  rateTest: v.optional(v.object({ ...RateTest.entries, rates: none, losses: none })),
});

/** Fields that are not here are left out. */
export const SpectatorEvent = v.variant('type', [
  GenerationEvent,
  ModelEvent,
  LinkEvent,
  StepEvent,
  EvaluationEvent,
  v.pipe(
    ConfusionEvent,
    v.check(({ classes, counts }) => [counts, ...counts].every(({ length }) => length === classes.length)),
  ),
  v.object({
    ...TraceEvent.entries,
    hops: v.pipe(v.array(v.omit(HopEvent, ['reduceMs'])), v.maxLength(MAX_HOPS)),
  }),
  CodecEvent,
  RanksEvent,
  HashesEvent,
  LessonEvent,
  SampleEvent,
  v.object({ ...FinishedEvent.entries, result: Result }),
]);
export type SpectatorEvent = v.InferOutput<typeof SpectatorEvent>;

/** `null`: it is none of those that are told, or not fit to be. */
export function spectatorEventOf(event: EngineEvent): SpectatorEvent | null {
  const told = event.type === 'finished' ? { ...event, result: withoutSteps(event.result) } : event;
  const result = v.safeParse(SpectatorEvent, told);
  return result.success ? result.output : null;
}

/** Without what it has of every step. */
function withoutSteps(result: RunResult): RunResult {
  const { rateTest } = result;
  return { ...result, losses: [], ...(rateTest && { rateTest: { ...rateTest, rates: [], losses: [] } }) };
}

/** The events of a digest; what does not fit is left out. */
export function parseSpectatorUpdate(digest: string): SpectatorEvent[] {
  const value = parseJson(digest);
  if (!Array.isArray(value)) return [];
  return value.flatMap((one) => {
    const result = v.safeParse(SpectatorEvent, one);
    return result.success ? [result.output] : [];
  });
}
