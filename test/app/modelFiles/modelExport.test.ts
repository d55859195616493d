import { beforeEach, expect, test, vi } from 'vitest';
import { expectModelFile, clearModelFile, modelExport, setModelFile } from '../../../src/app/modelFiles/modelExport.ts';

vi.mock('../../../src/app/browser/download.ts', () => ({ saveFile: () => {} }));

beforeEach(() => clearModelFile());

/** The engine's answer: a model after this number of steps. */
const answer = (id: number, step: number) =>
  setModelFile({ type: 'exported', id, problem: null, file: { name: 'model', step, bytes: new Uint8Array() } });

test('the step of the best model seen here is known; it may differ from that of the best test', () => {
  answer(expectModelFile('safetensors', 'best'), 40);
  expect(modelExport.value).toEqual({ format: null, problem: null, bestStep: 40 });
});

test.each([
  ['safetensors', 'last'],
  ['checkpoint', 'best'],
] as const)('a %s of the %s is not held to be the best', (format, which) => {
  answer(expectModelFile(format, which), 40);
  expect(modelExport.value).toEqual({ format: null, problem: null, bestStep: null });
});

test('a request for another file clears the state of the one before', () => {
  answer(expectModelFile('tfjs', 'best'), 40);
  expectModelFile('tfjs', 'last');
  expect(modelExport.value).toEqual({ format: 'tfjs', problem: null, bestStep: null });
});
