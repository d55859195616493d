/** Jobs that ask for something that their strategy does not have are rejected. */
import { describe, expect, test } from 'vitest';
import {
  JOB_FIELD_NAMES,
  parseJob,
  STRATEGIES,
  STRATEGY_NAMES,
  STRATEGY_SETTINGS,
  type OptionalJobFeature,
} from '../../src/spec/job.ts';
import { isPipelineJob, pipelineWorldFor } from '../../src/spec/pipeline.ts';
import { parsePlan } from '../../src/spec/plan.ts';

/** A model whose layers are not a chain. */
const BRANCHES = {
  class_name: 'Functional',
  config: {
    layers: [
      { class_name: 'InputLayer', name: 'in', config: { batch_input_shape: [null, 28, 28, 1] }, inbound_nodes: [] },
      { class_name: 'Flatten', name: 'flat', config: {}, inbound_nodes: [[['in', 0, 0, {}]]] },
      { class_name: 'Dense', name: 'out', config: { units: 10 }, inbound_nodes: [[['flat', 0, 0, {}]]] },
    ],
    input_layers: [['in', 0, 0]],
    output_layers: [['out', 0, 0]],
  },
};

/** Fields with each feature, and the field that the error names. */
const FEATURES: Record<OptionalJobFeature, [fields: Record<string, unknown>, at: string]> = {
  lesson: [{ job: 'lesson' }, 'job'],
  measure: [{ measure: 'methods' }, 'measure'],
  shardOptimizer: [{ shardOptimizer: true }, 'shardOptimizer'],
  mixed: [{ precision: 'mixed' }, 'precision'],
  federated: [{ job: 'images', data: { kind: 'federated' } }, 'data.kind'],
  branches: [{ model: BRANCHES }, 'model.class_name'],
};

describe.each(STRATEGY_NAMES)('%s', (strategy) => {
  test.each(Object.keys(FEATURES) as OptionalJobFeature[])(
    'rejects %s exactly if its row excludes it, with the reason',
    (feature) => {
      const [fields, at] = FEATURES[feature];
      const reason = STRATEGIES[strategy].excludes[feature];
      const parse = () => parseJob({ ...fields, strategy });
      if (reason === undefined) expect(parse().strategy).toBe(strategy);
      else expect(parse).toThrow(`The job is not valid: ${at}: ${reason}.`);
    },
  );

  test.each([
    ['syncEvery', 3],
    ['outerLearningRate', 0.5],
    ['staleness', 1],
    ['stages', 3],
    ['microBatches', 8],
    ['pipelineSchedule', 'gpipe'],
    ['recompute', true],
  ] as const)('has the setting %s exactly if its row has it', (setting, value) => {
    const parse = () => parseJob({ strategy, [setting]: value });
    if (STRATEGIES[strategy].settings.includes(setting)) expect(parse()[setting]).toBe(value);
    else
      expect(parse).toThrow(
        `${setting}: ${strategy} has no such setting: remove it, or choose a strategy that has it (`,
      );
  });
});

test('every setting of a strategy is a field of jobs', () => {
  expect(JOB_FIELD_NAMES).toEqual(expect.arrayContaining([...STRATEGY_SETTINGS]));
});

test('a pipeline has at least two stages, and two by default', () => {
  expect(parseJob({ strategy: 'pipeline' }).stages).toBe(2);
  expect(() => parseJob({ strategy: 'pipeline', stages: 1 })).toThrow('stages: a pipeline has at least 2 stages');
});

test('only the ranks of a pipeline have no whole model', () => {
  expect(STRATEGY_NAMES.filter((strategy) => isPipelineJob({ strategy }))).toEqual(['pipeline']);
});

test('ranks form as many replicas of a pipeline as possible', () => {
  const worlds = [1, 3, 4, 5, 8].map((ranks) => pipelineWorldFor(ranks, { stages: 4 }, 9));
  expect(worlds).toEqual([
    { stages: 1, replicas: 1 },
    { stages: 3, replicas: 1 },
    { stages: 4, replicas: 1 },
    { stages: 5, replicas: 1 },
    { stages: 4, replicas: 2 },
  ]);
});

test('the plan of a Trainer has no pipeline, and no settings of other strategies', () => {
  expect(() => parsePlan({ strategy: 'pipeline' })).toThrow('choose another strategy, or use PipelineStage');
  expect(() => parsePlan({ syncEvery: 4 })).toThrow('syncEvery: ddp has no such setting: remove it');
});
