/**
 * The latest answers of the model. Each kind of answer has its own signal, so that only the panel
 * that asked is drawn again.
 */
import { signal, type ReadonlySignal } from '@preact/signals';
import type { EventOf } from '../../protocol/events.ts';

export type PredictionAnswer = EventOf<'prediction'>;
export type ModelInspectionAnswer = EventOf<'inspection'>;
export type GeneratedText = EventOf<'generated'>;

/**
 * The minimum milliseconds between an inspection and the next request. If the panel changed faster,
 * nobody could read it.
 */
const PERIOD_MS = 1000;
/**
 * The same minimum as a multiple of the time that an inspection takes. It applies while the model
 * trains, because an inspection interrupts training.
 */
const PERIOD_FACTOR = 20;

const lastPrediction = signal<PredictionAnswer | null>(null);
const lastInspection = signal<ModelInspectionAnswer | null>(null);
const lastGenerated = signal<GeneratedText | null>(null);

export const latestPrediction: ReadonlySignal<PredictionAnswer | null> = lastPrediction;
export const latestInspection: ReadonlySignal<ModelInspectionAnswer | null> = lastInspection;
export const latestGeneratedText: ReadonlySignal<GeneratedText | null> = lastGenerated;

export function setModelAnswer(event: PredictionAnswer | ModelInspectionAnswer | GeneratedText): void {
  if (event.type === 'prediction') lastPrediction.value = event;
  else if (event.type === 'generated') lastGenerated.value = event;
  else lastInspection.value = event;
}

/** Clears the answers at the start of another run. */
export function clearModelAnswers(): void {
  lastPrediction.value = null;
  lastInspection.value = null;
  lastGenerated.value = null;
}

/**
 * Returns the milliseconds between an inspection and the next request.
 *
 * @param took milliseconds from the request to the answer.
 */
export function inspectionPauseMs(took: number, isTraining: boolean): number {
  return Math.max(PERIOD_MS, isTraining ? PERIOD_FACTOR * took : 0);
}
