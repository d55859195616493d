/**
 * Updates for spectators of a run: some of rank 0's events, as JSON text. The signaling server
 * forwards the text without parsing it. Therefore rank 0 sends only valid events, and spectators
 * ignore invalid ones.
 */
import * as v from 'valibot';
import { parseJson } from '../util/json.ts';
import {
  AlgorithmEvent,
  CodecEvent,
  ConfusionEvent,
  GenerationEvent,
  EvaluationEvent,
  FinishedEvent,
  HashesEvent,
  LessonEvent,
  LinkEvent,
  ModelEvent,
  PipelineEvent,
  RanksEvent,
  WrittenSampleEvent,
  SharesEvent,
  StepEvent,
  TraceEvent,
} from './runEvents.ts';
import { RangeTestResult, RunResultSchema, type RunResult } from './runResult.ts';
import type { EngineEvent } from './events.ts';
import { HopEvent, MAX_HOPS } from './stepTrace.ts';

/** A schema for a list that is empty in an update, because the full list would be too long. */
const none = v.pipe(v.array(v.number()), v.maxLength(0));

/**
 * A run's result without its large parts, so that the final update fits in one message. The
 * generated texts, the best evaluation and the lists with a value for each step are left out. The
 * confusion matrix is sent separately.
 */
const Result = v.object({
  ...v.omit(RunResultSchema, ['best', 'confusion', 'samples']).entries,
  losses: none,
  rateTest: v.optional(v.object({ ...RangeTestResult.entries, rates: none, losses: none })),
});

/** The events that spectators receive. Unknown fields are dropped. */
export const SpectatorEvent = v.variant('type', [
  GenerationEvent,
  ModelEvent,
  PipelineEvent,
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
  AlgorithmEvent,
  SharesEvent,
  CodecEvent,
  RanksEvent,
  HashesEvent,
  LessonEvent,
  WrittenSampleEvent,
  v.object({ ...FinishedEvent.entries, result: Result }),
]);
export type SpectatorEvent = v.InferOutput<typeof SpectatorEvent>;

/**
 * Returns the event as spectators receive it, or `null` if spectators do not receive this event or
 * it is invalid.
 */
export function spectatorEventOf(event: EngineEvent): SpectatorEvent | null {
  const sent = event.type === 'finished' ? { ...event, result: withoutSteps(event.result) } : event;
  const result = v.safeParse(SpectatorEvent, sent);
  return result.success ? result.output : null;
}

/** Returns the result without the lists that have a value for each step. */
function withoutSteps(result: RunResult): RunResult {
  const { rateTest } = result;
  return { ...result, losses: [], ...(rateTest && { rateTest: { ...rateTest, rates: [], losses: [] } }) };
}

/** Parses an update; invalid events are skipped. */
export function parseSpectatorUpdate(update: string): SpectatorEvent[] {
  const value = parseJson(update);
  if (!Array.isArray(value)) return [];
  return value.flatMap((one) => {
    const result = v.safeParse(SpectatorEvent, one);
    return result.success ? [result.output] : [];
  });
}
