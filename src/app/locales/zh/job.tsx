import { ALGORITHM_NAMES } from '../../../spec/algorithms.ts';
import { CODECS, STRATEGIES, type JobSpec, type CodecSetting, type StrategyName } from '../../../spec/job.ts';
import { learningMethodByName } from '../../../spec/methods.ts';
import type { AugmentName } from '../../../spec/names.ts';
import { capitalizeFirst } from '../../../util/text.ts';
import { formatCount } from '../format.ts';
import type { UiMessages } from '../en/index.ts';
import type { StrategyTexts } from '../en/job.tsx';

const nameOf = (codec: CodecSetting): string => (codec === 'auto' ? jobTexts.autoCodec.name : CODECS[codec].title);

const often = (steps: number | null): string =>
  steps === null ? '隔一段时间' : steps === 1 ? '每一步之后' : `每 ${steps} 步`;

export const strategyTexts: Record<StrategyName, StrategyTexts> = {
  ddp: {
    name: 'DDP',
    does: '每一步用全归约求梯度的平均。每个标签页发送的不到自己梯度大小的两倍，并且要等最慢的标签页。',
    instead: null,
  },
  'parameter-server': {
    name: '参数服务器',
    does: '每一步由 rank 0 收集所有梯度，再把参数发回去。这只要两跳，但所有字节都经过 rank 0 的链路。',
    instead: () => '各 rank 把梯度发给 rank 0，由它发回参数。这次训练没有环。',
  },
  'async-parameter-server': {
    name: '异步参数服务器',
    does: '类似参数服务器，但标签页不必等更慢的标签页。每步更快，但所用参数略旧。',
    instead: () => '各 rank 把梯度发给 rank 0，由它发回参数，每个 rank 有自己的节奏。这次训练没有环。',
  },
  'local-sgd': {
    name: '本地 SGD',
    does: '每个标签页各自训练，隔一段时间对参数取平均。发送的字节少，但两次交换之间各模型并不相同。',
    instead: (steps) => `每个 rank 各自训练，${often(steps)}对参数取平均。其间什么也不传。`,
  },
  diloco: {
    name: 'DiLoCo',
    does: '像本地 SGD，但间隔更长，再由第二个优化器应用平均后的变化。发送的字节少，但各模型不相同的时间更长。',
    instead: (steps) => `每个 rank 各自训练，${often(steps)}由外层优化器应用平均后的变化。其间什么也不传。`,
  },
  'streaming-diloco': {
    name: '流式 DiLoCo',
    does: '像 DiLoCo，但各标签页一边继续训练，一边依次交换模型的各个部分。谁也不必等待大块传输。',
    instead: (steps) => `每个 rank 各自训练；参数分为几份，每份${often(steps)}交换一次，依次进行，其间训练继续。`,
  },
  sparseloco: {
    name: 'SparseLoCo',
    does: '像 DiLoCo，但每个标签页只发送最大的变化，每个变化只用几个比特。在所有策略中发送的字节最少，适合家庭网络和手机。',
    instead: (steps) => `每个 rank 各自训练，${often(steps)}把最大的变化发给所有其他 rank。其间什么也不传。`,
  },
  pipeline: {
    name: '流水线',
    does: '每个标签页有一些层，适合一个标签页放不下的模型。标签页之间发送激活值及其梯度。如果标签页的数量是段数的两倍，两个副本会平均它们的梯度。',
    instead: null,
  },
};

const optimizers = {
  sgd: 'SGD',
  momentum: '带动量的 SGD',
  nesterov: '带 Nesterov 动量的 SGD',
  adam: 'Adam',
  adamw: 'AdamW',
};

const losses = {
  'mean-squared-error': '平方误差',
  'mean-absolute-error': '绝对误差',
  huber: 'Huber 损失',
};

const describeLoss = ({ loss }: JobSpec): string =>
  loss === null || loss === 'cross-entropy' ? '' : `，${losses[loss]}`;

/** Changes of training pictures. */
export const augmentTexts: Readonly<Record<AugmentName, string>> = {
  flip: '左右翻转',
  shift: '平移（最多 1/8）',
  colour: '改变明暗和颜色',
};

const describeAugment = ({ augment }: JobSpec): string =>
  augment === null ? '' : `；随机改变训练图片（${augment.map((name) => augmentTexts[name]).join('、')}）`;

const describeGpt = ({ layers, width, heads, context, tokens }: JobSpec['gpt']): string =>
  `${layers} 层、每层 ${width} 个通道、${heads} 个头，一次看 ${context} 个${tokens === 'characters' ? '字符' : '字节对'}`;

export const jobTexts: UiMessages['job'] = {
  job: '任务',
  jobs: {
    digits: 'digits（在此生成的数字）',
    mnist: 'mnist（手写数字）',
    gpt: 'gpt（语言模型）',
    images: '图像（自己的，按类别整理）',
    table: '表格（自己的 CSV、Parquet 或 xlsx）',
    lesson: '课堂：动手做全归约',
  },
  model: '模型',
  models: { mlp: 'mlp（快）', cnn: 'cnn（慢一些，更准）', own: '自定义层' },
  layerTable: {
    title: '模型的各层',
    layer: '层',
    gives: '输出',
    parameters: '权重数',
    sum: (layers, parameters) => `共 ${layers} 层，要学习 ${parameters} 个权重：`,
  },
  purpose: '目的',
  purposes: { train: '训练模型', 'learning-rate': '寻找学习率', methods: '比较策略' },
  measures: {
    'learning-rate': '每一步都提高学习率，直到损失爆炸，然后建议一个学习率。运行结束时模型不变。',
    methods: '先走几步，测量标签页之间的链路，再比较各种策略。这次运行不训练模型，之后由你选择策略。',
  },
  strategy: '策略',
  strategies: strategyTexts,
  advanced: '更多设置',
  optimizer: '优化器',
  optimizers,
  learningRate: '学习率',
  batch: '每个标签页的批大小',
  epochs: '轮数（epochs）',
  maxSteps: '最多几步',
  maxMinutes: '最多几分钟',
  patience: '早停耐心（测试次数）',
  noLimit: '不限',
  seed: '随机种子',
  schedule: '学习率调度',
  schedules: { constant: '不变', cosine: '按余弦下降' },
  warmupSteps: '预热步数',
  clipNorm: '梯度裁剪上限',
  weightDecay: '权重衰减',
  size: '大小',
  presets: {
    tiny: '微型（5.6 万）',
    small: '小（100 万）',
    medium: '中（500 万）',
    large: '大（1100 万）',
    gpt2: 'GPT-2（1.24 亿，分为 4 段）',
  },
  ownSize: '按“更多设置”',
  layers: '层数',
  heads: '注意力头数',
  width: '宽度',
  context: '上下文 token 数',
  dropout: '随机失活',
  tokens: 'token 类型',
  tokenKinds: { characters: '字符', 'byte-pairs': '字节对' },
  vocabulary: '词表大小（字节对）',
  hidden: '隐藏单元数',
  averages: '优化器的平均值',
  averagesIn: { whole: '每个标签页各存全部', sharded: '分给各标签页' },
  codec: '梯度编码',
  codecOfValues: '段之间的值',
  autoCodec: { name: '适合链路的编码', option: '自动' },
  insteadOfGradients: {
    powersgd: '各 rank 不是对梯度、而是对它的低秩因子做全归约（PowerSGD），字节只有百分之几。没有梯度块沿环传递。',
  },
  algorithm: '全归约算法',
  algorithms: {
    auto: '自动',
    ring: '环',
    'two-level': '两级环',
    'halving-doubling': '折半加倍',
    doubling: '加倍',
  },
  algorithmProblems: {
    codec: '“加倍”不支持梯度编码，因为两个标签页会把同一个和编码成不同的结果。',
    unknown: (name) => `没有“${name}”这种算法。请选：${ALGORITHM_NAMES.join('、')}。`,
    groups: (tabs) => `“两级环”要分成大小相等的组，而 ${tabs} 个标签页分不成多个每组至少 2 个的组。`,
  },
  transport: '同浏览器的连接',
  transports: { webrtc: 'WebRTC', auto: '内存' },
  settings: {
    staleness: '最多领先几步',
    syncEvery: '每几步交换一次',
    outerLearningRate: '外层学习率',
    stages: '段数（每个模型的标签页）',
    microBatches: '一步的微批次',
    pipelineSchedule: '段的调度',
    recompute: '激活值',
  },
  allWait: '每几步全体等待一次',
  asUsual: '默认',
  data: '数据来自',
  sources: {
    'built-in': '自带的寓言',
    files: '每个标签页选同样的文件',
    shared: '主持人共享的文件',
    federated: '各标签页自己的文件',
    url: '网络',
  },
  folder: '文件夹地址',
  textAddress: '文章或其文件夹的地址',
  fileAddress: '文件或文件夹地址',
  encoding: '文本编码',
  encodings: {
    'utf-8': 'UTF-8 或 UTF-16',
    gb18030: '中文（GBK）',
    big5: '繁体中文（Big5）',
    shift_jis: '日文（Shift_JIS）',
    'euc-kr': '韩文（EUC-KR）',
    'windows-1252': '西欧（windows-1252）',
    'windows-1250': '中欧（windows-1250）',
    'windows-1251': '西里尔文（windows-1251）',
  },
  side: '每边像素',
  channels: '颜色',
  colours: { 1: '灰度', 3: '红、绿、蓝' },
  augment: '随机改变训练图片',
  augments: augmentTexts,
  target: '要预测的列',
  lastColumn: '最后一列',
  task: '预测为',
  tasks: { none: '自动判断', classification: '类别', regression: '数量' },
  loss: '损失函数',
  losses,
  notNumber: '这里要填一个数。',
  describe: (spec) => {
    if (spec.job === 'lesson') return '每个标签页有几个小数字，用全归约一步一步把它们加起来';
    const steps = spec.maxSteps === null ? '' : `，最多 ${formatCount(spec.maxSteps)} 步`;
    const timed = spec.maxMinutes === null ? steps : `${steps}，最多 ${spec.maxMinutes} 分钟`;
    const length = spec.patience === null ? timed : `${timed}，或连续 ${spec.patience} 次测试没有改善`;
    const size = spec.job === 'gpt' ? `${describeGpt(spec.gpt)}；` : '';
    const codec = spec.codec === 'fp32' ? '' : `，梯度以 ${nameOf(spec.codec)} 传输`;
    const [begins, ends] =
      spec.measure === 'learning-rate'
        ? [`寻找学习率${timed}`, '']
        : spec.measure === 'methods'
          ? ['走几步', '']
          : [`数据过 ${spec.epochs} 轮${length}`, `，学习率 ${spec.learningRate}`];
    return `${size}${jobTexts.describeStrategy(spec)}${codec}；${begins}，每步每个标签页 ${spec.batchSize} 个样本，${optimizers[spec.optimizer]}${spec.shardOptimizer ? '（平均值分给各标签页）' : ''}${ends}${describeLoss(spec)}${spec.data.kind === 'federated' ? '；每个标签页只用自己的文件训练' : ''}${describeAugment(spec)}${spec.transport === 'webrtc' ? '；同一浏览器的标签页也用 WebRTC 相连' : ''}`;
  },
  describeStrategy: ({ measure, strategy, syncEvery, staleness, stages }: JobSpec) => {
    const { settings, exchanges } = STRATEGIES[strategy];
    if (measure === 'methods') return '比较各种策略';
    const divided = settings.includes('stages') ? `${stages} 段的` : '';
    const ahead = settings.includes('staleness') ? `，最多领先 ${staleness} 步` : '';
    const exchange = exchanges === 'server' ? '全体等待' : '交换一次';
    const period = syncEvery === null || !settings.includes('syncEvery') ? '' : `，${often(syncEvery)}${exchange}`;
    return `${divided}${strategyTexts[strategy].name}${ahead}${period}`;
  },
  methods: {
    name: (method: string): string => {
      const { strategy, codec } = learningMethodByName(method);
      return `${capitalizeFirst(strategyTexts[strategy].name)}${codec === 'fp32' ? '' : `，${CODECS[codec].title}`}`;
    },
    method: '方法',
    step: '一步',
    sends: '发送',
    goal: '到目标',
    use: '使用',
    useMethod: (name) => `使用 ${name}`,
    about: (tabs) =>
      `${tabs} 个标签页的预期值：一步用时、每个标签页每步发送的字节，以及达到目标的时间（最短者的几倍）。* 这些方法学到的与 DDP 不完全相同，要多走一些步。`,
    unchanged: (name) => `不带 * 的方法中 ${name} 最好。`,
    found: (step, latency, rate) =>
      `应能最快达到目标。一步不计通信用时 ${step}，一次小的全归约 ${latency}${rate === null ? '' : `，每个标签页每秒发送 ${rate}`}。模型没有改变。`,
  },
  insteadOfTraining: '每个 rank 先各自走几步，然后测量链路。',
};
