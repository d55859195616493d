/**
 * A strategy and a codec that are added to the tables appear everywhere. A row, a class and the
 * texts are inserted into the sources while they are loaded; no other source is changed.
 */
import * as tf from '@tensorflow/tfjs';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import * as v from 'valibot';
import { createServer, type ViteDevServer } from 'vite';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type * as JobForm from '../../src/app/state/jobForm.ts';
import type * as Pictures from '../../src/app/state/strategies.ts';
import type * as Collectives from '../../src/collectives/codecs.ts';
import type * as ExchangeCosts from '../../src/parallel/costs/exchangeCosts.ts';
import type * as MethodCosts from '../../src/parallel/costs/methodCosts.ts';
import type * as CodecChoice from '../../src/parallel/costs/codecChoice.ts';
import type * as Strategies from '../../src/parallel/strategies/index.ts';
import type * as Job from '../../src/spec/job.ts';
import type * as RunResult from '../../src/protocol/runResult.ts';
import type * as JobOptions from '../../launcher/options/jobOptions.ts';
import { CODEC_NAMES } from '../../src/spec/codecs.ts';
import { STRATEGY_NAMES } from '../../src/spec/strategies.ts';
import { createOptimizer } from '../../src/optim/index.ts';
import { SyncBatchNormalization } from '../../src/parallel/backward/syncBatchNorm.ts';
import { runWorld } from '../../src/testing/index.ts';
import { systemClock } from '../../src/util/clock.ts';
import { Command } from 'commander';

/** Texts that are inserted in front of a line of a file. */
const INSERTED: readonly [file: string, before: string, text: string][] = [
  [
    'src/spec/codecs.ts',
    '  powersgd: {',
    `shorter: { title: 'Shorter', share: '1/8', encodes: 'hop', exchanges: 1, codingMsPerByte: () => 1e-6, fitsPipelines: true },`,
  ],
  ['src/collectives/codecs.ts', 'const CODECS', `const shorter = { ...fp16, bytesOf: (elements) => elements / 2 };`],
  [
    'src/spec/strategies.ts',
    '  sparseloco: {',
    `gossip: { ...OUTER, codecs: COLLECTIVE_CODECS, compared: [{ codec: 'shorter', stepsToGoal: { classifier: 3, 'language model': 3 } }] },`,
  ],
  ['src/parallel/strategies/index.ts', '  sparseloco: createLocalSteps', 'gossip: createLocalSteps,'],
  [
    'src/app/locales/en/job.tsx',
    '  sparseloco: {',
    `gossip: { name: 'gossip', does: 'Tabs talk.', instead: () => 'Ranks talk.' },`,
  ],
];
/** The entry of the table of codecs. */
const ENTRY: readonly [string, RegExp, string] = [
  'src/collectives/codecs.ts',
  /const CODECS: Record<CollectiveCodecName, Codec \| null> = {/,
  '$& shorter,',
];

let server: ViteDevServer;
const load = <Module>(file: string): Promise<Module> => server.ssrLoadModule(`/${file}`) as Promise<Module>;

beforeAll(async () => {
  server = await createServer({
    configFile: false,
    logLevel: 'error',
    server: { middlewareMode: true, watch: null, ws: false },
    optimizeDeps: { noDiscovery: true },
    plugins: [
      {
        name: 'new-rows',
        enforce: 'pre',
        transform(code, id) {
          let changed = code;
          for (const [file, before, text] of INSERTED) {
            if (id.endsWith(file)) changed = changed.replace(`\n${before}`, `\n${text}\n${before}`);
          }
          return id.endsWith(ENTRY[0]) ? changed.replace(ENTRY[1], ENTRY[2]) : changed;
        },
      },
    ],
  });
});
afterAll(async () => {
  await server.close();
  // The server's copy of the class has replaced it for all files of this worker.
  tf.serialization.registerClass(SyncBatchNormalization);
});

const gossip = async () => {
  const { parseJob } = await load<typeof Job>('src/spec/job.ts');
  return parseJob({ strategy: 'gossip', codec: 'shorter' });
};

test('a new strategy trains with a new codec', async () => {
  const job = await gossip();
  const { createStrategy } = await load<typeof Strategies>('src/parallel/strategies/index.ts');
  const { codecByName } = await load<typeof Collectives>('src/collectives/codecs.ts');
  expect(codecByName('shorter' as never)!.bytesOf(8)).toBe(4);
  const [isElastic] = await runWorld(1, async (group) => {
    const strategy = await createStrategy(job, {
      model: [tf.variable(tf.scalar(0))],
      group,
      clock: systemClock,
      checkGradients: () => {},
      onnote: () => {},
      createOptimizer: (size) => createOptimizer('sgd', { learningRate: 1 }, size),
    });
    strategy.dispose();
    return strategy.elastic !== null;
  });
  expect(isElastic).toBe(true);
});

test('the form offers a new strategy and a new codec', async () => {
  const { codecNamesForForm, strategyNamesForForm, withStrategy } =
    await load<typeof JobForm>('src/app/state/jobForm.ts');
  const job = await gossip();
  expect(strategyNamesForForm()).toHaveProperty('gossip', 'gossip');
  expect(codecNamesForForm(job)).toHaveProperty('shorter', 'Shorter (1/8)');
  expect(withStrategy(job, 'ddp')).toMatchObject({ strategy: 'ddp', optimizer: 'adam' });
  expect(withStrategy(job, 'pipeline').codec).toBe('shorter');
});

test('the command line accepts a new strategy and a new codec', async () => {
  const { addJobOptions } = await load<typeof JobOptions>('launcher/options/jobOptions.ts');
  const command = new Command();
  addJobOptions(command);
  const choicesOf = (name: string) => command.options.find(({ long }) => long === name)!.argChoices;
  expect(choicesOf('--strategy')).toContain('gossip');
  expect(choicesOf('--codec')).toContain('shorter');
});

test('the page draws and describes a run with a new strategy', async () => {
  const { runPictureOfJob } = await load<typeof Pictures>('src/app/state/strategies.ts');
  const { describeJob } = await load<typeof JobForm>('src/app/state/jobForm.ts');
  const job = await gossip();
  expect(runPictureOfJob(job, 3, null, null)).toEqual({ lines: 'none', words: 'Ranks talk.' });
  expect(describeJob(job)).toMatch(/^Gossip, gradients sent in Shorter;/);
});

test('comparisons of methods include a new strategy and a new codec', async () => {
  const { encodedGradients } = await load<typeof ExchangeCosts>('src/parallel/costs/exchangeCosts.ts');
  const { methodCosts } = await load<typeof MethodCosts>('src/parallel/costs/methodCosts.ts');
  const { chooseCodec } = await load<typeof CodecChoice>('src/parallel/costs/codecChoice.ts');
  const results = await load<typeof RunResult>('src/protocol/runResult.ts');
  const gradients = encodedGradients([tf.variable(tf.zeros([100, 100]))], 2);
  const links = { latencyMs: 10, bytesPerMs: 10 };
  const costs = methodCosts({ worldSize: 2, learner: 'classifier', gradients, ownMs: 10, busyMs: 0, ...links });
  const { bytesPerStep } = costs.find(({ method }) => method === 'gossip')!;
  expect(bytesPerStep).toBe(5000 / 20);
  const choice = chooseCodec(2, gradients, { ownMs: 50, communicateMs: 60, exposedMs: 60 });
  expect(choice).toHaveProperty('codec', 'shorter');
  expect(v.parse(results.CodecChoice, choice)).toEqual(choice);
});

// `parameter-server` is also a mode of the lesson, `pipeline` an event, `int8` a dtype, and `fp32`
// means no codec.
test('no source compares the name of a strategy or codec, except names with a second meaning', () => {
  const names = [...STRATEGY_NAMES, ...CODEC_NAMES].filter(
    (name) => !['parameter-server', 'pipeline', 'int8', 'fp32'].includes(name),
  );
  const TABLES = [
    ...INSERTED.map(([file]) => file),
    'src/app/locales/zh/job.tsx',
    'src/parallel/ddp/gradientCodecs.ts',
  ];
  const quoted = new RegExp(`'(${names.join('|')})'`);
  const asking = ['src', 'launcher', 'signaling']
    .flatMap((folder) =>
      readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((file) => path.posix.join(folder, file)),
    )
    .filter((file) => /\.tsx?$/.test(file) && !TABLES.includes(file))
    .flatMap((file) =>
      readFileSync(file, 'utf8')
        .split('\n')
        .filter((line) => quoted.test(line))
        .map((line) => `${file}: ${line.trim()}`),
    );
  expect(asking).toEqual([
    "src/spec/plan.ts: strategy: field(v.picklist(STRATEGY_NAMES), 'ddp', { value: 'name', help: 'strategy by which ranks learn together' }),",
  ]);
});
