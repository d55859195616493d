/**
 * A tab has opened its lost GPU again. Its new run continues with what the previous run had stored.
 */
import { expect, test } from 'vitest';
import { exportModel } from '../../../src/engine/model/modelFiles.ts';
import { parseJob } from '../../../src/spec/job.ts';
import { inGeneration, prepareTraining } from '../trainings.ts';

test('the best model and the written sample texts are kept when the GPU is lost and opened again', async () => {
  const gpt = {
    layers: 1,
    heads: 1,
    width: 8,
    context: 8,
    dropout: 0,
    tokens: 'characters',
    vocabulary: 300,
    prompt: 'A',
  };
  const job = parseJob({ job: 'gpt', gpt, batchSize: 2, maxSteps: 2, patience: 5 });
  const first = await prepareTraining({ job });
  await inGeneration([first], 1, job, (training) => training.train());
  const { carryOver } = first;
  expect(carryOver.best!.steps).toBe(2);
  expect(carryOver.samples.map(({ steps }) => steps)).toEqual([1, 2]);
  const longer = { ...job, maxSteps: 3 };
  const second = await prepareTraining({ job: longer, from: await first.snapshot(), carryOver });
  first.dispose();
  expect(second.carryOver).toEqual(carryOver);
  const saved = await exportModel(
    { type: 'export', id: 1, format: 'safetensors', which: 'best' },
    second.answerer,
    null,
  );
  expect(saved).toMatchObject({ type: 'exported', problem: null, file: { step: 2 } });
  await inGeneration([second], 2, longer, (training) => training.train());
  expect(second.result!.samples!.map(({ steps }) => steps)).toEqual([1, 2, 3]);
  second.dispose();
});
