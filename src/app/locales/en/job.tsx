/** Texts for jobs, strategies and their settings. */
import { formatCount, plural } from '../format.ts';
import { capitalizeFirst } from '../../../util/text.ts';
import { ALGORITHM_NAMES } from '../../../spec/algorithms.ts';
import {
  CODECS,
  STRATEGIES,
  type CollectiveCodecName,
  type JobCodecName,
  type JobSpec,
  type CodecSetting,
  type StrategyName,
  type StrategySetting,
} from '../../../spec/job.ts';
import { learningMethodByName } from '../../../spec/methods.ts';

const nameOf = (codec: CodecSetting): string => (codec === 'auto' ? jobTexts.autoCodec.name : CODECS[codec].title);

const often = (steps: number | null): string =>
  steps === null ? 'from time to time' : steps === 1 ? 'after every step' : `every ${steps} steps`;

export interface StrategyTexts {
  name: string;
  /** How ranks learn together, and the cost. */
  does: string;
  /**
   * The exchange of ranks that replaces an all-reduce of gradients; `null` for a strategy that
   * all-reduces gradients, and for a pipeline, which has its own picture.
   */
  instead: ((syncEvery: number | null) => string) | null;
}

export const strategyTexts: Record<StrategyName, StrategyTexts> = {
  ddp: {
    name: 'DDP',
    does: 'Gradients are averaged in every step by an all-reduce. Each tab sends less than twice the size of its gradient, and waits for the slowest tab.',
    instead: null,
  },
  'parameter-server': {
    name: 'parameter server',
    does: 'Rank 0 collects all gradients in every step and sends the parameters back. This takes only two hops, but all bytes cross the link of rank 0.',
    instead: () => 'Ranks send gradients to rank 0, which returns parameters. This run has no ring.',
  },
  'async-parameter-server': {
    name: 'asynchronous parameter server',
    does: 'This works like a parameter server, but no tab waits for slower tabs. Steps take less time, but a gradient may be computed from slightly outdated parameters.',
    instead: () =>
      'Ranks send gradients to rank 0, which returns parameters. Each rank has its own pace. This run has no ring.',
  },
  'local-sgd': {
    name: 'local SGD',
    does: 'Each tab trains by itself. From time to time, the tabs average their parameters. Few bytes are sent, but the models differ between two exchanges.',
    instead: (steps) =>
      `Each rank trains by itself and averages its parameters with those of the others ${often(steps)}. Nothing is sent in between.`,
  },
  diloco: {
    name: 'DiLoCo',
    does: 'This works like local SGD with longer intervals. A second optimizer applies the averaged change. Few bytes are sent, but the models differ for longer.',
    instead: (steps) =>
      `Each rank trains by itself; an outer optimizer applies the averaged change ${often(steps)}. Nothing is sent in between.`,
  },
  'streaming-diloco': {
    name: 'streaming DiLoCo',
    does: 'This works like DiLoCo, but tabs exchange one part of the model after the other while they continue to train. No tab waits for a large transfer.',
    instead: (steps) =>
      `Each rank trains by itself. Each part of the parameters is exchanged ${often(steps)}, one part after the other, while training continues.`,
  },
  sparseloco: {
    name: 'SparseLoCo',
    does: 'This works like DiLoCo, but each tab sends only the largest changes, in a few bits each. Of all strategies, this one sends the fewest bytes. It suits home connections and phones.',
    instead: (steps) =>
      `Each rank trains by itself, and sends its largest changes to all others ${often(steps)}. Nothing is sent in between.`,
  },
  pipeline: {
    name: 'pipeline',
    does: 'Each tab holds some of the layers, for models that do not fit in one tab. Tabs send activations and their gradients. If there are twice as many tabs as stages, two replicas of the model average their gradients.',
    instead: null,
  },
};

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

/** The loss at the end of a job’s description: `, absolute error`. */
const describeLoss = ({ loss }: JobSpec): string =>
  loss === null || loss === 'cross-entropy' ? '' : `, ${losses[loss]}`;

/** The changes of training pictures: `; training pictures are changed at random (flip, shift)`. */
const describeAugment = ({ augment }: JobSpec): string =>
  augment === null ? '' : `; training pictures are changed at random (${augment.join(', ')})`;

/** The size of a language model: `2 layers of 64 channels, 4 heads, 64 characters at a time`. */
const describeGpt = ({ layers, width, heads, context, tokens }: JobSpec['gpt']): string =>
  `${plural(layers, 'layer')} of ${width} channels, ${plural(heads, 'head')}, ${context} ${tokens === 'characters' ? tokens : 'byte pairs'} at a time`;

export const jobTexts = {
  job: 'Job',
  jobs: {
    digits: 'digits (generated here)',
    mnist: 'mnist (handwritten)',
    gpt: 'gpt (language model)',
    images: 'images (your own, sorted by class)',
    table: 'table (your own CSV, Parquet or xlsx)',
    lesson: 'the lesson: an all-reduce by hand',
  },
  model: 'Model',
  models: { mlp: 'mlp (fast)', cnn: 'cnn (slower, better)', own: 'custom layers' },
  /** Custom layers of a job's model. */
  layerTable: {
    title: 'Layers of the model',
    layer: 'Layer',
    gives: 'Output',
    parameters: 'Weights',
    sum: (layers: number, parameters: string) => `${plural(layers, 'layer')}, ${parameters} weights to train:`,
  },
  purpose: 'Purpose',
  purposes: { train: 'train a model', 'learning-rate': 'find a learning rate', methods: 'compare strategies' },
  measures: {
    'learning-rate':
      'The run raises the learning rate in every step until the loss explodes, and suggests a rate. The model is unchanged at the end.',
    methods:
      'The run takes a few steps, measures the links between the tabs, and compares the strategies. It does not train the model. You then choose a strategy.',
  },
  strategy: 'Strategy',
  strategies: strategyTexts,
  advanced: 'Advanced',
  optimizer: 'Optimizer',
  optimizers,
  learningRate: 'Learning rate',
  batch: 'Batch per tab',
  epochs: 'Epochs',
  maxSteps: 'Maximum steps',
  maxMinutes: 'Maximum minutes',
  patience: 'Patience (evaluations)',
  noLimit: 'no limit',
  seed: 'Seed',
  schedule: 'Schedule',
  schedules: { constant: 'constant', cosine: 'cosine decay' },
  warmupSteps: 'Warm-up steps',
  clipNorm: 'Clip gradients above',
  weightDecay: 'Weight decay',
  size: 'Size',
  presets: {
    tiny: 'tiny (56 k)',
    small: 'small (1 M)',
    medium: 'medium (5 M)',
    large: 'large (11 M)',
    gpt2: 'GPT-2 (124 M, in 4 stages)',
  },
  ownSize: 'custom (see “Advanced”)',
  layers: 'Layers',
  heads: 'Attention heads',
  width: 'Width',
  context: 'Context, tokens',
  dropout: 'Dropout',
  tokens: 'Tokens',
  tokenKinds: { characters: 'characters', 'byte-pairs': 'byte pairs' },
  vocabulary: 'Vocabulary, byte pairs',
  hidden: 'Hidden units',
  averages: 'Averages of the optimizer',
  averagesIn: { whole: 'all in each tab', sharded: 'divided among tabs' },
  codec: 'Gradient codec',
  /** The codec of a pipeline. */
  codecOfValues: 'Values between stages',
  /** The codec `auto` in a sentence and in the form. */
  autoCodec: { name: 'a codec that suits the links', option: 'auto' },
  /**
   * The exchange of ranks that replaces an all-reduce of gradients, for codecs of whole gradients.
   */
  insteadOfGradients: {
    powersgd:
      'Instead of gradients, ranks all-reduce low-rank factors of them (PowerSGD), which have a few hundredths of the bytes. No chunks of gradients travel on a ring.',
  } satisfies Record<Exclude<JobCodecName, CollectiveCodecName>, string>,
  algorithm: 'All-reduce by',
  algorithms: {
    auto: 'auto',
    ring: 'ring',
    'two-level': 'two-level',
    'halving-doubling': 'halving-doubling',
    doubling: 'doubling',
  },
  /** Why an algorithm cannot run. */
  algorithmProblems: {
    codec: 'Doubling supports no gradient codec, because two tabs would encode the same sum differently.',
    unknown: (name: string) => `There is no algorithm “${name}”. Choose one of these: ${ALGORITHM_NAMES.join(', ')}.`,
    groups: (tabs: number) =>
      `Two-level needs groups of equal size, but ${tabs} tabs cannot be divided into several groups of 2 or more.`,
  },
  transport: 'Links in one browser',
  transports: { webrtc: 'WebRTC', auto: 'memory' },
  settings: {
    staleness: 'Maximum steps ahead',
    syncEvery: 'Exchange every … steps',
    outerLearningRate: 'Outer learning rate',
    stages: 'Stages (tabs per model)',
    microBatches: 'Micro-batches of a step',
    pipelineSchedule: 'Schedule of the stages',
    recompute: 'Activations',
  } satisfies Record<StrategySetting, string>,
  /** The setting `syncEvery` of a strategy with a server. */
  allWait: 'Wait for all tabs every … steps',
  asUsual: 'default',
  data: 'Data',
  sources: {
    'built-in': 'built-in text',
    files: 'same files in each tab',
    shared: 'files of the host',
    federated: 'each tab’s own files',
    url: 'from the web',
  },
  folder: 'Address of the folder',
  textAddress: 'Address of the text or its folder',
  /** For the jobs `images` and `table`. */
  fileAddress: 'Address of a file or folder',
  encoding: 'Encoding of the text',
  encodings: {
    'utf-8': 'UTF-8 or UTF-16',
    gb18030: 'Chinese (GBK)',
    big5: 'traditional Chinese (Big5)',
    shift_jis: 'Japanese (Shift_JIS)',
    'euc-kr': 'Korean (EUC-KR)',
    'windows-1252': 'Western Europe (windows-1252)',
    'windows-1250': 'Central Europe (windows-1250)',
    'windows-1251': 'Cyrillic (windows-1251)',
  },
  side: 'Pixels per side',
  channels: 'Colours',
  colours: { 1: 'grey', 3: 'red, green, blue' },
  augment: 'Change training pictures at random',
  augments: {
    flip: 'flip left and right',
    shift: 'shift by up to 1/8',
    colour: 'vary light and colour',
  },
  target: 'Column to predict',
  lastColumn: 'the last column',
  task: 'Predict it as',
  tasks: { none: 'what its values show', classification: 'a class', regression: 'an amount' },
  /** For a job that predicts an amount. */
  loss: 'Loss',
  losses,
  notNumber: 'This must be a number.',
  /** The job in a sentence: `DDP; 1 epoch, 32 samples per step and tab, Adam at 0.002`. */
  describe: (spec: JobSpec) => {
    if (spec.job === 'lesson') return 'Every tab has a few small numbers; an all-reduce adds them up, step by step';
    const steps = spec.maxSteps === null ? '' : `, at most ${formatCount(spec.maxSteps)} steps`;
    const timed = spec.maxMinutes === null ? steps : `${steps}, at most ${plural(spec.maxMinutes, 'minute')}`;
    const length =
      spec.patience === null
        ? timed
        : `${timed}, or until ${plural(spec.patience, 'evaluation')} in a row ${spec.patience === 1 ? 'shows' : 'show'} no improvement`;
    const size = spec.job === 'gpt' ? `${describeGpt(spec.gpt)}; ` : '';
    const codec = spec.codec === 'fp32' ? '' : `, gradients sent in ${nameOf(spec.codec)}`;
    const optimizer = `${optimizers[spec.optimizer]}${spec.shardOptimizer ? ' (averages divided among tabs)' : ''}`;
    const plan =
      spec.measure === 'learning-rate'
        ? `finds a learning rate${timed.replace(',', ' in')}, ${spec.batchSize} samples per step and tab, ${optimizer}`
        : spec.measure === 'methods'
          ? `a few steps, ${spec.batchSize} samples per step and tab`
          : `${plural(spec.epochs, 'epoch')}${length}, ${spec.batchSize} samples per step and tab, ${optimizer} at ${spec.learningRate}`;
    return `${capitalizeFirst(`${size}${jobTexts.describeStrategy(spec)}`)}${codec}; ${plan}${describeLoss(spec)}${spec.data.kind === 'federated' ? '; each tab trains on its own files' : ''}${describeAugment(spec)}${spec.transport === 'webrtc' ? '; tabs of one browser linked by WebRTC, too' : ''}`;
  },
  /** The strategy in a phrase: `local SGD, an exchange every 8 steps`. */
  describeStrategy: ({ measure, strategy, syncEvery, staleness, stages }: JobSpec): string => {
    const { settings, exchanges } = STRATEGIES[strategy];
    if (measure === 'methods') return 'compares strategies';
    const divided = settings.includes('stages') ? ` of ${plural(stages, 'stage')}` : '';
    const ahead = settings.includes('staleness') ? `, at most ${plural(staleness, 'step')} ahead` : '';
    const exchange = exchanges === 'server' ? 'waits for all' : 'an exchange';
    const period = syncEvery === null || !settings.includes('syncEvery') ? '' : `, ${exchange} ${often(syncEvery)}`;
    return `${strategyTexts[strategy].name}${divided}${ahead}${period}`;
  },
  /** The comparison of methods. */
  methods: {
    name: (method: string): string => {
      const { strategy, codec } = learningMethodByName(method);
      return `${capitalizeFirst(strategyTexts[strategy].name)}${codec === 'fp32' ? '' : `, ${CODECS[codec].title}`}`;
    },
    method: 'Method',
    step: 'Step',
    sends: 'Sent',
    goal: 'To a goal',
    use: 'Use',
    useMethod: (name: string) => `Use ${name}`,
    about: (tabs: number) =>
      `Expected with ${plural(tabs, 'tab')}: time of a step, bytes that a tab sends per step, and time to a goal as a multiple of the shortest time. * These methods do not learn exactly as DDP does, and need more steps for the same goal.`,
    unchanged: (name: string) => `Of the methods without *, ${name} is best.`,
    found: (step: string, latency: string, rate: string | null) =>
      `should reach a goal soonest. A step takes ${step} without communication, a small all-reduce takes ${latency}${rate === null ? '' : `, and each tab sends ${rate} per second`}. The model is unchanged.`,
  },
  /** The work of ranks in a run that compares methods. */
  insteadOfTraining: 'Each rank takes a few steps by itself. Then the ranks measure their links.',
};
