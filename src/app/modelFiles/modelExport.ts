/** Export of the model as a file, one at a time, and the error of the last one. */
import { signal, type ReadonlySignal } from '@preact/signals';
import type { EngineEvent } from '../../protocol/events.ts';
import type { ModelFormat, ModelVersion } from '../../spec/modelFile.ts';
import { saveFile } from '../browser/download.ts';

interface ModelExport {
  /** Format of the pending export. */
  format: ModelFormat | null;
  /** Message of the engine. */
  problem: string | null;
  /** Steps of the exported weights, if the best ones were asked for. */
  bestStep: number | null;
}

const NOTHING: ModelExport = { format: null, problem: null, bestStep: null };

const current = signal<ModelExport>(NOTHING);
export const modelExport: ReadonlySignal<ModelExport> = current;

/** Id of the latest request; a launcher's exports have other ids. */
let lastId = 0;
let wantsBest = false;

/**
 * Expects a file and downloads it when it arrives.
 * @returns the id of the request.
 */
export function expectModelFile(format: ModelFormat, which: ModelVersion): number {
  current.value = { ...NOTHING, format };
  wantsBest = which === 'best' && format !== 'checkpoint';
  return ++lastId;
}

export function setModelFile({ id, file, problem }: Extract<EngineEvent, { type: 'exported' }>): void {
  if (id !== lastId || current.peek().format === null) return;
  current.value = { format: null, problem, bestStep: file && wantsBest ? file.step : null };
  if (file) saveFile(file.name, file.bytes, 'application/octet-stream');
}

/** Cancels a pending export: its engine has stopped. */
export function clearModelFile(): void {
  current.value = NOTHING;
}
