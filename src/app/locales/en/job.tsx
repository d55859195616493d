/** Jobs, strategies and their settings. */
import { formatCount, plural, upperFirst } from '../format.ts';
import type { JobSpec } from '../../../spec/job.ts';

const often = (steps: number | null): string =>
  steps === null ? 'now and then' : steps === 1 ? 'after every step' : `every ${steps} steps`;

const strategies = {
  ddp: 'DDP',
  'parameter-server': 'parameter server',
  'async-parameter-server': 'parameter server, no waiting',
  'data-parallel': 'workers in one tab',
  'local-sgd': 'local SGD',
  diloco: 'DiLoCo',
};

/** Names in a sentence. */
const codecs = { fp32: 'fp32', fp16: 'fp16', int8: 'int8', powersgd: 'PowerSGD', auto: 'the links need' };

const optimizers = {
  sgd: 'SGD',
  momentum: 'SGD with momentum',
  nesterov: 'SGD with Nesterov momentum',
  adam: 'Adam',
  adamw: 'AdamW',
};

const losses = {
  'mean-squared-error': 'squared error',
  'mean-absolute-error': 'absolute error',
  huber: 'Huber loss',
};

/** `, absolute error` */
const describeLoss = ({ loss }: JobSpec): string =>
  loss === null || loss === 'cross-entropy' ? '' : `, ${losses[loss]}`;

/** `2 layers of 64 channels, 4 heads, 64 characters at a time` */
const describeGpt = ({ layers, width, heads, context, tokens }: JobSpec['gpt']): string =>
  `${plural(layers, 'layer')} of ${width} channels, ${plural(heads, 'head')}, ${context} ${tokens === 'characters' ? tokens : 'byte pairs'} at a time`;

export const job = {
  job: 'Job',
  jobs: {
    digits: 'digits (drawn here)',
    mnist: 'mnist (handwritten)',
    gpt: 'gpt (writes text)',
    images: 'images (your own, by class)',
    table: 'table (your own CSV)',
    lesson: 'the lesson: add up numbers by hand',
  },
  model: 'Model',
  models: { mlp: 'mlp (quick)', cnn: 'cnn (slower, better)', own: 'own layers' },
  /** Of a model that the job brings itself. */
  layerTable: {
    title: 'Layers of the model',
    layer: 'Layer',
    gives: 'Gives',
    parameters: 'Weights',
    sum: (layers: number, parameters: string) => `${plural(layers, 'layer')}, ${parameters} weights to learn:`,
  },
  strategy: 'Strategy',
  strategies,
  /** What it does, and what that costs. */
  does: {
    ddp: 'In every step gradients are added up round a ring: each tab sends less than twice its gradient, and waits for the slowest.',
    'parameter-server':
      'In every step rank 0 gathers all gradients and sends the parameters back: two hops only, but all bytes go over its line.',
    'async-parameter-server':
      'Like a parameter server, but a tab need not wait for slower ones: steps are quicker, and learn from parameters a little old.',
    'data-parallel':
      'This one tab trains with several workers: nothing crosses the network, but they share one machine. A room of several tabs is refused.',
    'local-sgd':
      'Each tab learns by itself, and now and then all take their average: few bytes, but the tabs drift apart in between.',
    diloco:
      'Like local SGD for longer stretches, and a second optimizer moves all by what they learned: fewest bytes, longest apart.',
  },
  advanced: 'Advanced',
  optimizer: 'Optimizer',
  optimizers,
  learningRate: 'Learning rate',
  batch: { tab: 'Batch per tab', worker: 'Batch per worker' },
  epochs: 'Passes (epochs)',
  maxSteps: 'At most, steps',
  maxMinutes: 'At most, minutes',
  patience: 'Stop when no better for, tests',
  noLimit: 'no limit',
  seed: 'Seed',
  schedule: 'Rate',
  schedules: { constant: 'stays', cosine: 'falls (cosine)', 'range-test': 'find a good one' },
  warmupSteps: 'Steps of rising rate',
  clipNorm: 'Cut gradients above',
  weightDecay: 'Weight decay',
  size: 'Size',
  presets: {
    tiny: 'tiny (56 k)',
    small: 'small (1 M)',
    medium: 'medium (5 M)',
    large: 'large (11 M)',
  },
  ownSize: 'as set under “Advanced”',
  layers: 'Layers',
  heads: 'Heads of attention',
  width: 'Width',
  context: 'Tokens seen at once',
  dropout: 'Dropout',
  tokens: 'Tokens are',
  tokenKinds: { characters: 'characters', 'byte-pairs': 'byte pairs' },
  vocabulary: 'How many byte pairs',
  hidden: 'Hidden units',
  codec: 'Gradients travel as',
  /** Short: a select of them is narrow on a phone. */
  codecs: {
    fp32: 'fp32',
    fp16: 'fp16 (1/2)',
    int8: 'int8 (1/4)',
    powersgd: 'PowerSGD',
    auto: 'auto',
  },
  transport: 'Link a browser’s tabs',
  transports: { webrtc: 'by WebRTC', auto: 'in memory' },
  workers: 'Workers',
  ahead: 'Steps ahead, at most',
  allWait: 'All wait every … steps',
  exchange: 'Exchange every … steps',
  asUsual: 'as usual',
  data: 'Data from',
  sources: {
    'built-in': 'here: fables',
    files: 'the same files, picked in each tab',
    shared: 'files the host hands on',
    federated: 'each tab’s own files',
    url: 'the web',
  },
  folder: 'Folder’s address',
  textAddress: 'Address of the text, or its folder',
  /** Of the jobs `images` and `table`. */
  fileAddress: 'Address of a file or folder',
  side: 'Pixels per side',
  channels: 'Colours',
  colours: { 1: 'grey', 3: 'red, green, blue' },
  target: 'Predict the column',
  lastColumn: 'the last one',
  task: 'As',
  tasks: { none: 'its values suggest', classification: 'a class', regression: 'an amount' },
  /** Of amounts. */
  loss: 'Loss',
  losses,
  notNumber: 'This must be a number.',
  /** `Ring; 1 pass over the data, 32 samples per step and tab, Adam at 0.002` */
  describe: (spec: JobSpec, who: 'tab' | 'worker') => {
    if (spec.job === 'lesson') return 'Every tab has a few small numbers, and all add them up together, step by step';
    const steps = spec.maxSteps === null ? '' : `, at most ${formatCount(spec.maxSteps)} steps`;
    const timed = spec.maxMinutes === null ? steps : `${steps}, at most ${plural(spec.maxMinutes, 'minute')}`;
    const length =
      spec.patience === null
        ? timed
        : `${timed}, or until ${plural(spec.patience, 'test')} in a row show nothing better`;
    const size = spec.job === 'gpt' ? `${describeGpt(spec.gpt)}; ` : '';
    const codec = spec.codec === 'fp32' ? '' : `, gradients as ${codecs[spec.codec]}`;
    const optimizer = optimizers[spec.optimizer];
    const plan =
      spec.schedule === 'range-test'
        ? `looks for a learning rate${timed.replace(',', ' in')}, ${spec.batchSize} samples per step and ${who}, ${optimizer}`
        : `${plural(spec.epochs, 'pass', 'passes')} over the data${length}, ${spec.batchSize} samples per step and ${who}, ${optimizer} at ${spec.learningRate}`;
    return `${upperFirst(`${size}${job.describeStrategy(spec)}`)}${codec}; ${plan}${describeLoss(spec)}${spec.data.kind === 'federated' ? '; each tab learns from its own files' : ''}${spec.transport === 'auto' ? '; tabs of one browser linked in memory' : ''}`;
  },
  /** `local SGD, an exchange every 8 steps` */
  describeStrategy: ({ strategy, syncEvery, staleness, replicas }: JobSpec): string => {
    const name = strategies[strategy];
    switch (strategy) {
      case 'ddp':
      case 'parameter-server':
        return name;
      case 'async-parameter-server':
        return `${name}, at most ${plural(staleness, 'step')} ahead${syncEvery === null ? '' : `, all wait ${often(syncEvery)}`}`;
      case 'data-parallel':
        return `${plural(replicas, 'worker')} in one tab`;
      case 'local-sgd':
      case 'diloco':
        return syncEvery === null ? name : `${name}, an exchange ${often(syncEvery)}`;
      default:
        return strategy satisfies never;
    }
  },
  /** What ranks do where there is no ring to see. */
  instead: {
    otherwise: (ranks: number, ringSteps: number) =>
      `Round a ring of ${ranks}, these gradients would take ${ringSteps} steps. ` +
      'Ranks exchange them in pairs or groups instead, in far fewer: there is no ring in this run.',
    server: 'Ranks send gradients to rank 0 and get parameters back: there is no ring in this run.',
    asyncServer:
      'Ranks send gradients to rank 0 and get parameters back, each at its own pace: there is no ring in this run.',
    powersgd:
      'Ranks add up thin matrices that stand for their gradients (PowerSGD), a few hundredths of the bytes: no chunks of a gradient go round.',
    average: (steps: number | null) =>
      `Each rank learns by itself, and ${often(steps)} all take the average of their parameters: nothing is sent in between.`,
    diloco: (steps: number | null) =>
      `Each rank learns by itself, and ${often(steps)} all move on together by the average of what they learned: nothing is sent in between.`,
  },
};
