import type { UiMessages } from '../en/index.ts';

const KINDS = { forward: '前向', backward: '反向' } as const;

export const pipelineLessonTexts: UiMessages['pipelineLesson'] = {
  heading: '动手做流水线',
  simulated: '模拟：所有这些段都在这个标签页里',

  thoughts: {
    why: ({ stages, weights, whole, part, term }) => ({
      title: '一个标签页装不下',
      text: (
        <>
          GPT-2 有 {weights} 个权重。训练时每个权重要存四个数：权重、它的梯度和两个平均值。一共 {whole}
          ，大多数标签页都装不下。所以把各层切成几{term('stage', '段')}，每个标签页一段。有 {stages}{' '}
          个标签页时，每个大约 {part}。
        </>
      ),
      task: '改变段数。',
    }),
    one: () => ({
      title: '一个在算，其余在等',
      text: '一批样本先向前通过所有的段，然后它的梯度向后通过所有的段。相邻的段没算完，一段就不能开始。所以每一拍只有一段在算，其余都在等。',
      task: '一拍一拍地走完。有斜线的格子是等待。',
    }),
    micro: ({ microBatches, term }) => ({
      title: '把这一批切开',
      text: (
        <>
          现在这一批被切成 {microBatches} 个{term('micro-batch', '微批')}。段 1 算第一个微批时，段 0
          就算第二个。这种调度叫 GPipe：先做完全部前向计算，再做全部反向计算。
        </>
      ),
      task: '走几拍。每一段什么时候等待？',
    }),
    bubble: ({ term }) => ({
      title: '数一数气泡',
      text: (
        <>
          流水线填满和排空时，各段要等待。有 S 段、M 个微批时，一步有 2(M+S−1) 拍，每一段等待其中的 2(S−1)
          拍。等待所占的比例 (S−1)/(M+S−1) 就是{term('bubble', '气泡')}。
        </>
      ),
      task: '有三段时，要几个微批，气泡才是 20 %？',
    }),
    turn: ({ term }) => ({
      title: '轮到你了',
      text: (
        <>
          反向计算需要前向计算的{term('activations', '激活值')}
          。在那之前，段要一直留着它们，所以每次前向计算都占用内存。一拍一拍地替一段做决定。其余的段尽早做反向计算，这叫
          1F1B。
        </>
      ),
      task: '做完这一步。不浪费一拍，又尽量少留。',
    }),
    compare: ({ stages, microBatches }) => ({
      title: '时间一样，内存更少',
      text: `1F1B 就是一次前向、一次反向。它和 GPipe 一样快。可是用 GPipe 时，每一段都要留着全部 ${microBatches} 个微批（M）；用 1F1B 时，段 s 最多留 S−s 个，所以不管 M 多大，段 0 只留 ${Math.min(stages, microBatches)} 个。`,
      task: '走几拍，看各段留着什么。',
    }),
    training: () => ({
      title: '标签页就是这样训练的',
      text: '在真正的标签页里，反向计算大约是前向计算的两倍长，气泡不变。结果要从一个浏览器传到另一个，这时各段在等待。更多的微批会有帮助。',
      task: '让结果在路上花更多时间，比较等待的时间。',
    }),
  },

  sizes: { title: '流水线', stages: '段数 S', microBatches: '微批数 M' },

  schedules: { gpipe: 'GPipe', '1f1b': '1F1B' },

  cut: {
    title: 'GPT-2 的各层',
    forward: '前向计算',
    backward: '反向计算',
    stage: (stage, from, to, bytes) => `段 ${stage}：第 ${from} 层到第 ${to} 层，大约 ${bytes}`,
  },

  ticks: {
    title: '拍',
    next: '下一拍',
    all: '走完所有拍',
    again: '重新开始',
    did: (passes) => (passes.length === 0 ? '还什么都没有算。' : `${passes.join('；')}。`),
    pass: (stage, kind, microBatch) => `段 ${stage}：${KINDS[kind]} ${microBatch}`,
  },

  board: {
    stage: (stage) => `段 ${stage}`,
    stages: '段',
    ticks: '拍',
    tick: (tick) => `第 ${tick} 拍`,
    forward: '前向',
    backward: '反向',
    waits: '等待',
    yours: '由你决定',
    legend: '格子里的数字是微批。',
    count: (ticks, of, waiting, squares, share) =>
      ticks === 0
        ? `第 0 拍，共 ${of} 拍`
        : `第 ${ticks} 拍，共 ${of} 拍 · ${squares} 格中有 ${waiting} 格在等：${share}`,
  },

  kept: {
    title: '现在留着 / 最多',
    text: (now, most) => `${now} / ${most}`,
    label: (stage, now, most) => `段 ${stage} 留着 ${now} 个微批的激活值；到现在最多 ${most} 个。`,
  },

  bubble: {
    title: '气泡',
    counted: '数出来的',
    squares: (waiting, all) => `${all} 格中的 ${waiting} 格`,
    formula: '公式',
  },

  turn: {
    title: '你的段',
    which: '你是',
    stage: (stage) => `段 ${stage}`,
    decide: (stage, tick) => `第 ${tick} 拍：段 ${stage} 做什么？`,
    forward: (microBatch) => (microBatch === null ? '前向' : `前向 ${microBatch}`),
    backward: (microBatch) => (microBatch === null ? '反向' : `反向 ${microBatch}`),
    wait: '等待',
    advice: '照 1F1B 做',
    again: '重新开始',
    finished: (ticks, most) => `用了 ${ticks} 拍，最多留着 ${most} 个微批。`,
    others: (ticks, gpipe, usual) =>
      `GPipe 和 1F1B 都要 ${ticks} 拍；你的段用 GPipe 时最多留着 ${gpipe} 个，用 1F1B 时 ${usual} 个。`,
    verdicts: {
      ready: '还什么都没有算。',
      done: { forward: '你的前向计算都做完了。', backward: '你的反向计算都做完了。' },
      needsForward: (microBatch, from) => `还不行：段 ${from} 还没算完前向 ${microBatch}，而你需要它的结果。`,
      needsOwn: (microBatch) => `还不行：要先做你自己的前向 ${microBatch}，才能做反向。`,
      needsBackward: (microBatch, from) => `还不行：段 ${from} 还没算完反向 ${microBatch}，而你需要它的梯度。`,
      forward: (microBatch, kept) => `好：前向 ${microBatch}。你现在留着 ${kept} 个。`,
      backward: (microBatch, kept) => `好：反向 ${microBatch} 释放了它的激活值。你现在留着 ${kept} 个。`,
      early: (kept) => `可以，不过本来能做一次反向，从而释放内存。你现在留着 ${kept} 个。`,
      more: (kept, usual) => `可以，不过更占内存：你现在留着 ${kept} 个。用 1F1B 时最多留 ${usual} 个。`,
      bubble: '什么都做不了：这次等待是气泡的一部分。',
      full: (kept) => `好：本来能做一次前向，可是你已经留着 ${kept} 个。1F1B 这时也等待。`,
      idle: '可以，不过你本来能算一次。这一步也许会因此变长。',
    },
  },

  travel: {
    title: '时间中的一步（1F1B）',
    time: '一个结果在路上的时间',
    passes: (time) => `前向的 ${time} 倍`,
    row: (stage, share) => `段 ${stage} 有 ${share} 的时间在等。`,
    share: (share, still) => `各段有 ${share} 的时间在等。如果不用传送：${still}。`,
  },

  ending: { room: '用流水线训练', lesson: '关于全归约的课' },
};
