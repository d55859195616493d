import { beforeEach, expect, test, vi } from 'vitest';
import { expectModelFile, clearModelFile, modelExport, setModelFile } from '../../../src/app/modelFiles/modelExport.ts';

vi.mock('../../../src/app/browser/download.ts', () => ({ saveFile: () => {} }));

beforeEach(() => clearModelFile());

/** The engine's answer: a model after so many steps. */
const answer = (id: number, step: number) =>
  setModelFile({ type: 'exported', id, problem: null, file: { name: 'model', step, bytes: new Uint8Array() } });

test('of the best model seen here it is known after how many steps it was, which need not be those of the best test', () => {
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

test('what was saved before is forgotten when another file is asked for', () => {
  answer(expectModelFile('tfjs', 'best'), 40);
  expectModelFile('tfjs', 'last');
  expect(modelExport.value).toEqual({ format: 'tfjs', problem: null, bestStep: null });
});
