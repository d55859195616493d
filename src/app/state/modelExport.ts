/**
 * State of the export of the model to a file. There is one export at a time. If an export fails,
 * its error stays until the next export.
 */
import { signal, type ReadonlySignal } from '@preact/signals';
import type { EventOf } from '../../protocol/events.ts';
import type { ModelFileFormat, ExportedModelState } from '../../spec/modelFile.ts';
import { downloadFile } from '../../util/download.ts';

interface ModelExport {
  /** Format of the pending export. */
  format: ModelFileFormat | null;
  /** Error message of the engine. */
  problem: string | null;
  /**
   * If the user requested the best weights: the number of steps after which the model had the
   * exported weights.
   */
  bestStep: number | null;
}

const NOTHING: ModelExport = { format: null, problem: null, bestStep: null };

const current = signal<ModelExport>(NOTHING);
export const modelExportState: ReadonlySignal<ModelExport> = current;

/** The id of the latest request. Exports of a launcher have other ids. */
let lastId = 0;
let wantsBest = false;

/**
 * Waits for a model file and downloads the file when it arrives.
 *
 * @returns the id of the request.
 */
export function beginModelExport(format: ModelFileFormat, which: ExportedModelState): number {
  current.value = { ...NOTHING, format };
  wantsBest = which === 'best' && format !== 'checkpoint';
  return ++lastId;
}

export function receiveExportedModel({ id, file, problem }: EventOf<'exported'>): void {
  if (id !== lastId || current.peek().format === null) return;
  current.value = { format: null, problem, bestStep: file && wantsBest ? file.step : null };
  if (file) downloadFile(file.name, file.content);
}

/** Cancels a pending export, because its engine has stopped. */
export function cancelModelExport(): void {
  current.value = NOTHING;
}
