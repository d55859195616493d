/** The model's last answers, as separate signals: only the panel that asked is drawn again. */
import { signal, type ReadonlySignal } from '@preact/signals';
import type { EngineEvent } from '../../protocol/events.ts';

export type Prediction = Extract<EngineEvent, { type: 'prediction' }>;
export type Learning = Extract<EngineEvent, { type: 'learned' }>;
export type Writing = Extract<EngineEvent, { type: 'written' }>;

const lastPrediction = signal<Prediction | null>(null);
const lastLearning = signal<Learning | null>(null);
const lastWriting = signal<Writing | null>(null);

export const prediction: ReadonlySignal<Prediction | null> = lastPrediction;
export const learning: ReadonlySignal<Learning | null> = lastLearning;
export const writing: ReadonlySignal<Writing | null> = lastWriting;

export function setAnswer(event: Prediction | Learning | Writing): void {
  if (event.type === 'prediction') lastPrediction.value = event;
  else if (event.type === 'written') lastWriting.value = event;
  else lastLearning.value = event;
}

/** Clears the answers of another run. */
export function clearAnswers(): void {
  lastPrediction.value = null;
  lastLearning.value = null;
  lastWriting.value = null;
}
