import { describe, expect, test } from 'vitest';
import {
  describeJob,
  hasSameCosts,
  gptPresetOf,
  withJob,
  withMethod,
  withOptimizer,
  withGptPreset,
  withLearningRate,
  withMeasure,
  withDataSource,
  withStages,
  withStrategy,
} from '../../../src/app/state/jobForm.ts';
import { GPT_PRESET_NAMES } from '../../../src/spec/gpt.ts';
import { LEARNING_METHOD_NAMES } from '../../../src/spec/methods.ts';
import {
  jobAcceptsData,
  parseJobOrProblem,
  DEFAULT_JOB,
  parseJob,
  STRATEGIES,
  STRATEGY_NAMES,
  type JobName,
} from '../../../src/spec/job.ts';

const described = (fields: Parameters<typeof parseJob>[0]): string => describeJob(parseJob(fields));

test('a new job name selects suitable data; a new optimizer selects its learning rate unless the user has set one', () => {
  const mnist = withJob(DEFAULT_JOB, 'mnist', null);
  expect(parseJob(mnist).data).toEqual({ kind: 'files' });
  expect(parseJob(withJob(DEFAULT_JOB, 'mnist', '/data/')).data).toEqual({ kind: 'url', url: '/data/' });
  expect(parseJob(withJob(mnist, 'digits', null)).data).toEqual({ kind: 'synthetic' });
  expect(withOptimizer(DEFAULT_JOB, 'sgd').learningRate).toBe(0.1);
  expect(withOptimizer({ ...DEFAULT_JOB, learningRate: 0.5 }, 'sgd').learningRate).toBe(0.5);
});

test('tabs of one browser are linked by message ports, except in a lesson, which uses WebRTC', () => {
  const lesson = withJob(DEFAULT_JOB, 'lesson', null);
  expect(
    [DEFAULT_JOB, parseJob({ job: 'gpt' }), lesson, withJob(lesson, 'digits', null)].map((job) => job.transport),
  ).toEqual(['auto', 'auto', 'webrtc', 'auto']);
});

describe('a method that a run has compared', () => {
  test.each(LEARNING_METHOD_NAMES)('%s makes a valid job for which the measured costs stay valid', (method) => {
    for (const job of [parseJob({ measure: 'methods' }), parseJob({ job: 'gpt', measure: 'methods' })]) {
      const chosen = withMethod(job, method);
      expect(parseJobOrProblem(chosen)).toEqual({ job: chosen });
      expect(chosen.measure).toBeNull();
      expect(hasSameCosts(job, chosen)).toBe(true);
      expect(hasSameCosts(job, { ...chosen, batchSize: 7 })).toBe(false);
    }
  });

  test.each(LEARNING_METHOD_NAMES)('%s makes a valid job from any job that the host has set', (method) => {
    for (const fields of [
      { measure: 'methods', algorithm: 'doubling' },
      { strategy: 'pipeline', recompute: true },
      { shardOptimizer: true },
      { measure: 'learning-rate' },
    ]) {
      expect(parseJobOrProblem(withMethod(parseJob(fields), method))).toHaveProperty('job');
    }
  });

  test.each(LEARNING_METHOD_NAMES)('%s keeps the schedule that the host has chosen', (method) => {
    const job = parseJob({ measure: 'methods', schedule: 'cosine', maxSteps: 77 });
    expect(withMethod(job, method)).toMatchObject({ schedule: 'cosine', maxSteps: 77 });
  });

  test('sets the exchange period, outer learning rate, optimizer and codec of language models for such a model', () => {
    const gpt = parseJob({ job: 'gpt', measure: 'methods' });
    expect(withMethod(gpt, 'sparseloco')).toMatchObject({ syncEvery: 6, outerLearningRate: 1, optimizer: 'adamw' });
    expect(withMethod(gpt, 'diloco')).toMatchObject({ syncEvery: null, outerLearningRate: null, codec: 'int8' });
  });
});

describe('a change of the strategy', () => {
  test.each(STRATEGY_NAMES)(
    'to %s gives the default job of this strategy, and a change back gives the previous job',
    (strategy) => {
      const job = withStrategy(DEFAULT_JOB, strategy);
      expect(job).toEqual(parseJob({ strategy }));
      expect(withStrategy(job, 'ddp')).toEqual(DEFAULT_JOB);
    },
  );

  test('does not change a chosen optimizer', () => {
    const chosen = withOptimizer(DEFAULT_JOB, 'sgd');
    expect(withStrategy(chosen, 'diloco')).toMatchObject({ optimizer: 'sgd', learningRate: 0.1 });
    const inner = withOptimizer(withStrategy(DEFAULT_JOB, 'diloco'), 'momentum');
    expect(withStrategy(inner, 'ddp').optimizer).toBe('momentum');
    const gpt = parseJob({ job: 'gpt' });
    expect(withStrategy(withStrategy(gpt, 'diloco'), 'ddp')).toEqual(gpt);
  });

  test('removes the settings of the previous strategy, and changes nothing if the strategy stays the same', () => {
    const set = { ...withStrategy(DEFAULT_JOB, 'local-sgd'), syncEvery: 3 };
    expect(withStrategy(set, 'diloco').syncEvery).toBeNull();
    expect(withStrategy(set, 'local-sgd')).toBe(set);
  });

  test('does not change job name, data, number of epochs or number of steps', () => {
    const mnist = { ...withJob(DEFAULT_JOB, 'mnist', '/data/'), epochs: 3, maxSteps: 20, seed: 7 };
    expect(withStrategy(mnist, 'local-sgd')).toEqual({ ...mnist, strategy: 'local-sgd' });
  });
});

describe('a change of the job name', () => {
  test('to table selects the model mlp, and a change from table to images removes the settings of the table', () => {
    const table = withJob({ ...DEFAULT_JOB, model: 'cnn', epochs: 3 }, 'table', '/data/');
    expect(table).toMatchObject({ job: 'table', model: 'mlp', epochs: 3, data: { kind: 'files' } });
    const images = withJob(
      { ...table, target: 'price', task: 'regression', loss: 'huber', metrics: ['r2'] },
      'images',
      null,
    );
    expect(parseJob(images)).toMatchObject({
      target: null,
      task: null,
      loss: null,
      metrics: null,
      data: { kind: 'files' },
    });
  });

  test('removes the changes of pictures', () => {
    const digits = parseJob({ augment: ['shift'] });
    expect(['mnist', 'images', 'table', 'lesson'].map((job) => withJob(digits, job as JobName, null).augment)).toEqual([
      null,
      null,
      null,
      null,
    ]);
  });

  test('gives the default job of this name, and a change back gives the previous job', () => {
    const gpt = withJob(DEFAULT_JOB, 'gpt', null);
    expect(gpt).toEqual(parseJob({ job: 'gpt' }));
    expect(withJob(gpt, 'digits', null)).toEqual(DEFAULT_JOB);
  });

  test('to gpt allows the data kinds files, shared, url and built-in', () => {
    const gpt = parseJob({ job: 'gpt' });
    const folder = '/data/';
    const places = (['files', 'shared', 'url'] as const).map((kind) => withDataSource(gpt, kind, folder));
    const data = [{ kind: 'files' }, { kind: 'shared', files: [] }, { kind: 'url', url: folder }];
    expect(places.map((job) => parseJob(job).data)).toEqual(data);
    for (const job of places) expect(withDataSource(job, 'built-in', folder)).toEqual(gpt);
    expect(withJob(places[1]!, 'digits', null)).toEqual(DEFAULT_JOB);
  });

  test.each(['mnist', 'images', 'table', 'gpt'] as const)('to %s offers exactly the valid kinds of data', (name) => {
    for (const kind of ['built-in', 'files', 'url', 'shared', 'federated'] as const) {
      const job = withDataSource(withJob(DEFAULT_JOB, name, null), kind, '/data/');
      expect(jobAcceptsData(job, kind), kind).toBe(!('problem' in parseJobOrProblem(job)));
    }
  });

  test('does not change settings that were chosen', () => {
    const set = { ...DEFAULT_JOB, epochs: 3, seed: 7 };
    expect(withJob(set, 'gpt', null)).toEqual(parseJob({ job: 'gpt', epochs: 3, seed: 7 }));
  });

  test.each(GPT_PRESET_NAMES)(
    'to gpt allows the size %s, which is recognized until one of its numbers changes',
    (name) => {
      const job = withGptPreset(parseJob({ job: 'gpt' }), name);
      expect(parseJob(job)).toEqual(job);
      expect(gptPresetOf(job)).toBe(name);
      expect(gptPresetOf({ gpt: { ...job.gpt, layers: 9 } })).toBeNull();
    },
  );
});

describe('a job in words', () => {
  test('names the strategy and its settings', () => {
    const rest = '; 1 epoch, 32 samples per step and tab, Adam at 0.002';
    expect(described({})).toBe(`DDP${rest}`);
    expect(described({ strategy: 'parameter-server' })).toBe(`Parameter server${rest}`);
    expect(described({ strategy: 'async-parameter-server', staleness: 1, syncEvery: 10 })).toBe(
      `Asynchronous parameter server, at most 1 step ahead, waits for all every 10 steps${rest}`,
    );
    expect(described({ strategy: 'local-sgd' })).toBe(`Local SGD${rest}`);
    expect(described({ strategy: 'local-sgd', syncEvery: 1 })).toBe(`Local SGD, an exchange after every step${rest}`);
    expect(described({ strategy: 'diloco', syncEvery: 50, maxSteps: 200 })).toBe(
      'DiLoCo, an exchange every 50 steps; 1 epoch, at most 200 steps, 32 samples per step and tab, AdamW at 0.002',
    );
    expect(described({ augment: ['flip', 'shift'] })).toBe(
      `DDP${rest}; training pictures are changed at random (flip, shift)`,
    );
    expect(described({ transport: 'webrtc' })).toBe(`DDP${rest}; tabs of one browser linked by WebRTC, too`);
    expect(described({ job: 'gpt', maxMinutes: 5, maxSteps: null, epochs: 1 })).toBe(
      '1 layer of 64 channels, 2 heads, 32 characters at a time; DDP; 1 epoch, at most 5 minutes, 8 samples per step and tab, AdamW at 0.005',
    );
  });

  test.each(STRATEGY_NAMES)('names every setting of %s, and no setting of other strategies', (strategy) => {
    const job = withStrategy(DEFAULT_JOB, strategy);
    for (const setting of ['syncEvery', 'staleness', 'stages'] as const) {
      const isTold = describeJob({ ...job, [setting]: 13 }).includes('13');
      expect(isTold, setting).toBe(STRATEGIES[strategy].settings.includes(setting));
    }
  });
});

describe('the form for a learning-rate range test', () => {
  test.each(['digits', 'gpt'] as const)(
    'on %s sets a hundred steps; choosing the found rate restores the previous job with this rate',
    (job) => {
      const usual = parseJob({ job });
      const search = withMeasure(usual, 'learning-rate');
      expect(search).toEqual(parseJob({ job, measure: 'learning-rate' }));
      expect(search.maxSteps).toBe(100);
      expect(withMeasure(search, null)).toEqual(usual);
      expect(withLearningRate(search, 0.03)).toEqual({ ...usual, learningRate: 0.03 });
    },
  );

  test('keeps the chosen number of steps if a range test allows this number, and sets 100 steps otherwise', () => {
    expect(withMeasure({ ...DEFAULT_JOB, maxSteps: 300 }, 'learning-rate').maxSteps).toBe(300);
    expect(withMeasure({ ...DEFAULT_JOB, maxSteps: 5000 }, 'learning-rate').maxSteps).toBe(100);
    const search = withMeasure({ ...DEFAULT_JOB, maxSteps: 300 }, 'learning-rate');
    expect(withLearningRate(search, 0.03).maxSteps).toBe(300);
  });

  test('leaves the range test when a strategy other than DDP is chosen', () => {
    const search = withMeasure(DEFAULT_JOB, 'learning-rate');
    expect(withStrategy(search, 'local-sgd')).toEqual(parseJob({ strategy: 'local-sgd' }));
  });

  test('describes the job as a range test', () => {
    expect(described({ measure: 'learning-rate' })).toBe(
      'DDP; finds a learning rate in at most 100 steps, 32 samples per step and tab, Adam',
    );
  });
});

describe('the form for a pipeline', () => {
  test('replaces the settings that a pipeline does not support, and keeps the other settings', () => {
    const planned = { ...DEFAULT_JOB, strategy: 'diloco', optimizer: 'adamw', syncEvery: 8, seed: 5 } as const;
    const divided = withStages({ ...planned, codec: 'fp32' }, 4);
    expect(divided).toMatchObject({ strategy: 'pipeline', stages: 4, syncEvery: null, seed: 5 });
    expect(parseJobOrProblem({ ...divided })).toHaveProperty('job');
    const tested = withMeasure({ ...DEFAULT_JOB, codec: 'int8', precision: 'mixed' }, 'learning-rate');
    expect(parseJobOrProblem({ ...withStages(tested, 2) })).toHaveProperty('job');
    expect(withStages({ ...DEFAULT_JOB, codec: 'fp16' }, 2).codec).toBe('fp16');
  });

  test('leaves the pipeline when a different strategy is chosen', () => {
    const divided = { ...withStages(DEFAULT_JOB, 4), microBatches: 8, recompute: true };
    const undivided = { stages: 1, microBatches: null, recompute: false };
    expect(withStrategy(divided, 'local-sgd')).toMatchObject(undivided);
    expect(withStrategy(divided, 'ddp')).toEqual(DEFAULT_JOB);
  });

  test('chooses a pipeline for a size that needs one, and leaves it for a smaller size', () => {
    const gpt = parseJob({ job: 'gpt', strategy: 'diloco' });
    const large = withGptPreset(gpt, 'gpt2');
    expect(large).toMatchObject({ strategy: 'pipeline', stages: 4, recompute: true });
    expect(parseJobOrProblem(large)).toHaveProperty('job');
    expect(withGptPreset(large, 'small')).toMatchObject({ strategy: 'ddp', stages: 1, recompute: false });
    expect(withGptPreset(gpt, 'small').strategy).toBe('diloco');
  });
});
