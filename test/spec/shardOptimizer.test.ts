/** Jobs that cannot shard their optimizer are rejected with the reason and a way out. */
import { expect, test } from 'vitest';
import { DEFAULT_JOB, parseJob } from '../../src/spec/job.ts';
import { parsePlan } from '../../src/spec/plan.ts';

test.each([
  [{ strategy: 'local-sgd' }, 'only the strategy ddp can shard the optimizer: choose ddp'],
  [{ codec: 'powersgd' }, 'the codec powersgd reduces whole gradients'],
  [{ codec: 'auto' }, 'choose one of fp32, fp16, int8'],
  [{ algorithm: 'doubling' }, 'shards of gradients are summed on the ring, not by doubling: choose the algorithm ring'],
])('a sharded optimizer is rejected with %o', (fields, reason) => {
  for (const parse of [parseJob, parsePlan]) {
    expect(() => parse({ shardOptimizer: true, ...fields })).toThrow(reason);
    expect(parse(fields).shardOptimizer).toBe(false);
  }
});

test('a pipeline cannot have a sharded optimizer', () => {
  expect(() => parseJob({ shardOptimizer: true, strategy: 'pipeline' })).toThrow(
    'a stage has an optimizer of its own layers',
  );
});

test('an optimizer is whole by default, and can be sharded with fp32, fp16 or int8 on the ring', () => {
  expect(DEFAULT_JOB.shardOptimizer).toBe(false);
  for (const codec of ['fp32', 'fp16', 'int8']) {
    for (const algorithm of ['auto', 'ring']) {
      expect(parseJob({ shardOptimizer: true, codec, algorithm })).toMatchObject({ shardOptimizer: true });
    }
  }
});
