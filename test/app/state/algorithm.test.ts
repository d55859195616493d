import { describe, expect, test } from 'vitest';
import {
  algorithmNamesForForm,
  algorithmProblem,
  describeAutoAlgorithmGain,
  bucketBytesOf,
  DEFAULT_PAGE_JOB,
  mainAutoAlgorithm,
  simulatedAlgorithm,
} from '../../../src/app/state/algorithm.ts';
import { autoAlgorithm } from '../../../src/collectives/plans/algorithms.ts';
import { allReduceRounds, estimateRoundsMs, DEFAULT_NETWORK_COSTS } from '../../../src/collectives/plans/costModel.ts';
import { GptNetwork, paddedVocabularySize } from '../../../src/jobs/index.ts';
import { buildJobModel } from '../../../src/jobs/models/models.ts';
import { AlgorithmCode } from '../../../src/protocol/frame.ts';
import { createFlatLayout } from '../../../src/parallel/flat/buckets.ts';
import { ALGORITHM_NAMES } from '../../../src/spec/algorithms.ts';
import { GPT_PRESETS } from '../../../src/spec/gpt.ts';
import { parseJob } from '../../../src/spec/job.ts';
import { elementCountOf } from '../../../src/util/shape.ts';

test('a room opened on the page uses the ring by default, and the form offers every algorithm', () => {
  expect(DEFAULT_PAGE_JOB).toEqual(parseJob({ algorithm: 'ring' }));
  expect(Object.keys(algorithmNamesForForm())).toEqual([...ALGORITHM_NAMES]);
});

const problem = (fields: Partial<typeof DEFAULT_PAGE_JOB>, n: number) =>
  algorithmProblem({ ...DEFAULT_PAGE_JOB, ...fields }, n);

test('the reason why an algorithm cannot run is known before the start', () => {
  expect(problem({ algorithm: 'two-level' }, 7)).toContain('7 tabs cannot be divided into several groups');
  expect(problem({ algorithm: 'two-level' }, 6)).toBeNull();
  expect(problem({ algorithm: 'doubling', codec: 'int8' }, 4)).toContain('supports no gradient codec');
  expect(problem({ algorithm: 'doubling', codec: 'powersgd' }, 4)).toBeNull();
  expect(problem({ algorithm: 'two-level', strategy: 'parameter-server' }, 7)).toBeNull();
});

const ofAddress = (query: string) => simulatedAlgorithm(new URLSearchParams(query), 6);

test('a simulated run with an unknown algorithm uses the ring, and the error lists all algorithms', () => {
  expect(ofAddress('')).toEqual({ algorithm: 'ring', problem: null });
  expect(ofAddress('algorithm=two-level')).toEqual({ algorithm: 'two-level', problem: null });
  expect(ofAddress('algorithm=star')).toEqual({
    algorithm: 'ring',
    problem: 'There is no algorithm “star”. Choose one of these: auto, ring, two-level, halving-doubling, doubling.',
  });
});

describe('the sentence about the time that auto saves', () => {
  test('comes from the cost model, for rooms with the ring and for rooms with auto', () => {
    const bytes = 4 * 50_890;
    const [ringMs, autoMs] = [AlgorithmCode.RING, AlgorithmCode.TWO_LEVEL].map((one) =>
      Math.round(estimateRoundsMs(allReduceRounds(one, 30, bytes), 30, DEFAULT_NETWORK_COSTS)),
    );
    expect(ringMs).toBeGreaterThan(autoMs!);
    const sentence = describeAutoAlgorithmGain(DEFAULT_PAGE_JOB, 30);
    expect(sentence).toContain(`For 30 tabs, “auto” would choose two-level`);
    expect(sentence).toContain(`about ${autoMs} ms instead of ${ringMs} ms on the ring`);
    expect(describeAutoAlgorithmGain(parseJob({}), 30)).toContain('“auto” chooses two-level');
  });

  test('is missing if auto saves no time, or if the algorithm cannot be chosen', () => {
    expect(describeAutoAlgorithmGain(DEFAULT_PAGE_JOB, 4)).toBeNull();
    expect(describeAutoAlgorithmGain(parseJob({}), 4)).toBe('For 4 tabs, “auto” chooses the ring.');
    expect(describeAutoAlgorithmGain(parseJob({ algorithm: 'two-level' }), 30)).toBeNull();
    expect(describeAutoAlgorithmGain(parseJob({ strategy: 'parameter-server' }), 30)).toBeNull();
    expect(describeAutoAlgorithmGain(parseJob({ job: 'table', data: { kind: 'files' } }), 30)).toBeNull();
  });

  test('adds up the times of all buckets', () => {
    const job = parseJob({ job: 'gpt', gpt: { ...GPT_PRESETS.small.model, prompt: '' } });
    const buckets = bucketBytesOf(job)!;
    expect(buckets.length).toBeGreaterThan(4);
    const ringMs = buckets.reduce(
      (sum, bytes) => sum + estimateRoundsMs(allReduceRounds(AlgorithmCode.RING, 30, bytes), 30, DEFAULT_NETWORK_COSTS),
      0,
    );
    // In one bucket, the gradient would travel on the ring.
    const whole = buckets.reduce((sum, bytes) => sum + bytes, 0);
    expect([autoAlgorithm(30, whole), mainAutoAlgorithm(30, buckets, false)]).toEqual(['ring', 'two-level']);
    expect(describeAutoAlgorithmGain(job, 30)).toContain('“auto” chooses two-level');
    expect(describeAutoAlgorithmGain(job, 30)).toContain(`instead of ${Math.round(ringMs)} ms on the ring`);
  });
});

/** Returns the bytes of the buckets of parameters with these shapes. */
const bytesOf = (shapes: readonly (readonly number[])[]) =>
  createFlatLayout(shapes.map(elementCountOf)).buckets.map(({ start, end }) => 4 * (end - start));

describe('the buckets that the lobby expects', () => {
  test.each([{}, { hidden: 128 }, { model: 'cnn' }])('are those of the model that the job trains: %o', (fields) => {
    const job = parseJob(fields);
    const model = buildJobModel(job, { inputShape: [28, 28, 1], classes: 10 });
    expect(bucketBytesOf(job)).toEqual(bytesOf(model.variables.map(({ shape }) => shape)));
    model.dispose();
  });

  test('are those of the language model', () => {
    const { model } = GPT_PRESETS.tiny;
    const network = new GptNetwork({ ...model, vocabulary: paddedVocabularySize(65) }, 1);
    expect(bucketBytesOf(parseJob({ job: 'gpt', gpt: { ...model, prompt: '' } }))).toEqual(
      bytesOf(network.variables.map(({ shape }) => shape)),
    );
    network.dispose();
  });
});
