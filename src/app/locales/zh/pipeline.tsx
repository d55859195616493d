import type { UiMessages } from '../en/index.ts';

const kinds = { forward: '前向', backward: '反向' };
const ranks = (values: readonly number[]): string => values.join('、');

export const pipelineTexts: UiMessages['pipeline'] = {
  title: '流水线',
  kinds,
  schedules: { '1f1b': '1F1B', gpipe: 'GPipe' },
  sentences: (sentences) => sentences.join(''),
  picture: (count, replicas, microBatches, schedule, ring, names) =>
    `${count} 个 rank 的流水线，${microBatches} 个微批次，调度 ${schedule}。` +
    (ring ? '第一个 rank 有第一段和最后一段。' : '') +
    (replicas > 1 ? `${replicas} 个副本用不同的样本做同样的事。` : '') +
    `Rank：${names}。`,
  legend: '每个方块是一个微批次，即一步的一部分样本。它经过所有的段，它的梯度再返回。在此之前，rank 保留它的激活值。',
  moreReplicas: (count) => `另外 ${count} 个副本同时用其他样本做同样的事。`,
  stages: (stages) => `第 ${ranks(stages)} 段`,
  layers: (count) => `${count} 层`,
  keeps: (count) => `保留 ${count} 个`,
  noStage: '没有段',
  noStageHere: '这个标签页没有段：标签页的数目不是段数的倍数。它等待。',

  tick: (tick, ticks) => `第 ${tick} 拍，共 ${ticks} 拍。`,
  youWait: '你在等待。',
  youCompute: ({ kind, microBatch, stage }) => `你在第 ${stage} 段计算微批次 ${microBatch} 的${kinds[kind]}。`,
  busy: (busy, all) => (busy === all ? '所有 rank 都在计算。' : `${all} 个 rank 中有 ${busy} 个在计算。`),
  end: '所有梯度都已知道。每个 rank 更新自己的层。',
  done: (tick, ticks) => `${ticks} 拍中的 ${tick} 拍`,
  fills: '填充',
  runs: '运行',
  drains: '排空',
  planIdle: (share) => `按这个计划，rank 有 ${share} 的时间在等待。`,
  planned: '这是计划，不是一次训练。',

  plan: '一步的计划',
  planLabel: (count, ticks) => `计划：${count} 个 rank，${ticks} 拍`,
  planNote: (share, ring) =>
    `一行是一个 rank，一列是一拍。空格里 rank 在等待：如果每一遍用时相同，占 ${share}。` +
    (ring ? '第 0 段只查嵌入表，几乎不用时间，所以不画出来。' : ''),
  passIn: (kind, microBatch, stage, tick) => `第 ${tick} 拍：第 ${stage} 段，微批次 ${microBatch} 的${kinds[kind]}`,

  passOf: (kind, microBatch, stage) => `第 ${stage} 段，微批次 ${microBatch} 的${kind}`,
  idle: (step, measured, plan) =>
    `在第 ${step} 步，rank 有 ${measured} 的时间在等待。如果每一遍用时相同，按计划是 ${plan}。`,
  idleLater: (plan) => `按计划，rank 有 ${plan} 的时间在等待。第一次交换统计之后显示测得的比例。`,
  timelineHelp:
    '每个方块是一遍计算，数字是它的微批次。在有斜线的部分，rank 在等待另一个 rank。指向方块可看详情。拖动可移动；双指或 + − 可缩放。',
  aligned: (error, you) =>
    `各 rank 的时钟按同一次交换的结束时刻对齐。各行之间最多可能错开 ${error}。` +
    (you === null ? '每一行都按该 rank 的记录显示。' : '你自己的一行是精确的。其他 rank 报告最近几步的每一遍计算。'),
  stage: '段',
  memory: '内存',

  division: '流水线',
  divided: (stages, replicas, microBatches) =>
    `${stages} 段${replicas > 1 ? ` × ${replicas} 个副本` : ''}，${microBatches} 个微批次`,
  waited: 'rank 等待',
  planOf: (share) => `按计划 ${share}`,
  memoryPerRank: '一个标签页的内存',
  upTo: (least, most) => (least === most ? most : `${least} 到 ${most}`),
  layersByRank: '每个 rank 的层和内存',

  automatic: '每段 4 个',
  recomputes: { keep: '保留', recompute: '重新计算' },
  whole: (needs) => `每个标签页都有整个模型，大约需要 ${needs}。`,
  divides: (tabs, needs) => `模型分在 ${tabs} 个标签页上。每个最多大约需要 ${needs}。`,
  dividesUnknown: (tabs) => `模型分在 ${tabs} 个标签页上。每个有它的一些层。`,
  has: (bytes, isReported) =>
    !isReported ? `假定一个标签页有 ${bytes}。` : `假定一个标签页有 ${bytes}，即这个浏览器报告的内存的八分之一。`,
  tooLarge: '这太多了。',
  offer: (tabs, needs) => `分到 ${tabs} 个标签页（每个 ${needs}）`,
  undo: '不分割模型',
  noFit: (layer, needs) => `更多的段没有用：仅 ${layer} 这一层就需要 ${needs}。请选择更小的模型。`,
  noFitAtAll: '多少段都不够。请选择更小的模型或更小的批次。',
  buffer: (needs, most) =>
    `最大的矩阵有 ${needs}，但这个标签页的 GPU 的一个缓冲区最多有 ${most}。流水线不切开矩阵：请选择更小的词表或宽度。`,

  needsTabs: (stages, tabs) => `${stages} 段的流水线需要 ${stages} 个标签页；已有 ${tabs} 个就绪。`,
  missing: (missing, stages) => `还缺 ${missing} 个标签页。现在开始的训练有 ${stages} 段。`,
  fewerStages: (needs) => `那样一个标签页最多大约需要 ${needs}。`,
  cannotStart: (most) => `训练无法开始，因为一个标签页的权重、梯度和平均值最多可以有 ${most}。`,
  enough: (stages, replicas) =>
    replicas === 1 ? `标签页足够 ${stages} 段。` : `标签页足够 ${replicas} 个副本，每个 ${stages} 段。`,
  leftOver: (tabs) => `${tabs} 个标签页将没有段，只等待。`,
  plannedLayers: '计划的段',
  measuredLater: '训练开始时测量各层的时间，所以切法可能不同。',
  alone: '只有一个标签页时没有流水线：这个标签页会有整个模型。',
};
