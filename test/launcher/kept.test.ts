import { describe, expect, test } from 'vitest';
import { discardsModel, keptOf } from '../../launcher/output/kept.ts';
import { parseJob } from '../../src/spec/job.ts';

const job = parseJob({});
const pipeline = parseJob({ strategy: 'pipeline' });
const rateTest = parseJob({ measure: 'learning-rate', maxSteps: 50 });

describe('the final model', () => {
  test('is discarded without --out, and the message lists the possible endings of the file name', () => {
    expect([discardsModel(job, undefined), discardsModel(pipeline, undefined)]).toEqual([
      'The final model will be discarded. To save it, pass --out FILE, where FILE ends in .safetensors, .zip, .weights.h5.',
      'The final model will be discarded. To save it, pass --out FILE, where FILE ends in .safetensors.',
    ]);
  });

  test('is not mentioned with --out, or if the run only takes measurements', () => {
    expect([discardsModel(job, 'model.zip'), discardsModel(rateTest, undefined)]).toEqual([null, null]);
  });
});

test('an interrupted run names its checkpoint, or says how to get one', () => {
  expect([
    keptOf(job, 'a.peergrad', 'a.peergrad'),
    keptOf(job, 'a.peergrad', null),
    keptOf(job, undefined, null),
    keptOf(pipeline, undefined, null),
    keptOf(rateTest, undefined, null),
  ]).toEqual([
    'The latest checkpoint is a.peergrad. To continue, pass --resume a.peergrad.',
    'The run was interrupted before its first checkpoint, so a.peergrad was not written.',
    'The interrupted run was not saved. To continue such a run later, pass --checkpoint FILE.',
    'The interrupted run was not saved, and this run has no checkpoints.',
    null,
  ]);
});
