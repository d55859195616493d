/** The model as a file, one at a time: what is asked for, and why the last one did not come. */
import { signal, type ReadonlySignal } from '@preact/signals';
import type { EngineEvent } from '../../protocol/events.ts';
import type { ModelFormat, ModelVersion } from '../../spec/modelFile.ts';
import { saveFile } from '../browser/download.ts';

interface ModelExport {
  /** On its way; `null`: nothing is. */
  format: ModelFormat | null;
  /** In the engine's words. */
  problem: string | null;
  /**
   * After how many steps the weights were that came last, where the best seen here were asked for.
   */
  bestStep: number | null;
}

const NOTHING: ModelExport = { format: null, problem: null, bestStep: null };

const current = signal<ModelExport>(NOTHING);
export const modelExport: ReadonlySignal<ModelExport> = current;

/** Of the latest question: an answer to a launcher's is not this page's. */
let lastId = 0;
let wantsBest = false;

/** A file is asked for, and downloaded when it comes. @returns the question's id. */
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

/** Whoever was asked is gone. */
export function clearModelFile(): void {
  current.value = NOTHING;
}
