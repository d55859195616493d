import { beforeEach, expect, test, vi } from 'vitest';
import {
  beginModelExport,
  cancelModelExport,
  modelExportState,
  receiveExportedModel,
} from '../../../src/app/state/modelExport.ts';

vi.mock('../../../src/util/download.ts', () => ({ downloadFile: () => {} }));

beforeEach(() => cancelModelExport());

/** Passes on the engine's answer to an export: a model after this number of steps. */
const answer = (id: number, step: number) =>
  receiveExportedModel({ type: 'exported', id, problem: null, file: { name: 'model', step, content: new Blob() } });

test('after an export of the best model, the page knows the step of this model', () => {
  answer(beginModelExport('safetensors', 'best'), 40);
  expect(modelExportState.value).toEqual({ format: null, problem: null, bestStep: 40 });
});

test.each([
  ['safetensors', 'last'],
  ['checkpoint', 'best'],
] as const)(
  'after an export as %s of the %s model, the step of the best model is unknown to the page',
  (format, which) => {
    answer(beginModelExport(format, which), 40);
    expect(modelExportState.value).toEqual({ format: null, problem: null, bestStep: null });
  },
);

test('a request for a model file clears the state of the previous request', () => {
  answer(beginModelExport('tfjs', 'best'), 40);
  beginModelExport('tfjs', 'last');
  expect(modelExportState.value).toEqual({ format: 'tfjs', problem: null, bestStep: null });
});
