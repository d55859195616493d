import type { Messages } from '../en/index.ts';

const each = (isRun: boolean): string => (isRun ? '每个 rank ' : '每个标签页');
const all = (ranks: readonly number[]): string => `${ranks.slice(0, -1).join('、')} 和 ${ranks.at(-1)}`;

export const ring: Messages['ring'] = {
  restart: '回到开头',
  back: '后退一步',
  play: '播放',
  pause: '暂停',
  on: '前进一步',
  space: '空格',
  withKey: (does, key) => `${does}（${key}）`,
  place: '进行到哪里',
  done: (steps, of) => `环上共 ${of} 步，已完成 ${steps} 步`,
  speed: '速度',
  reduceScatter: '归约散播：各块相加',
  allGather: '全收集：总和复制给所有 rank',
  simulated: '模拟',
  nothing: '还没有可以回放的',
  took: (ms, slower, isStretched) => `实际用时 ${ms}，回放${slower}${isStretched ? '，很短的步更慢' : ''}`,
  slower: (times) => `放慢 ${times} 倍`,
  faster: (times) => `加快 ${times} 倍`,

  titles: {
    own: '各自的梯度',
    reduceScatter: (hop, of) => `归约散播 ${hop}/${of}`,
    allGather: (hop, of) => `全收集 ${hop}/${of}`,
    done: '全都相同',
    alone: '只有自己',
  },
  ownText: (isRun, n) => `${each(isRun)}都用自己那份样本算出了梯度，并切成 ${n} 块。`,
  reduceScatterText: (isRun) =>
    `归约散播（reduce-scatter）：各块相加。${each(isRun)}把一块传给右边，再把自己的数加到收到的那块上。`,
  youAdd: (chunk, to, comes, from) =>
    `归约散播（reduce-scatter）：你把块 ${chunk} 发给 rank ${to}，并把自己的数加到 rank ${from} 发来的块 ${comes} 上。`,
  allGatherText: (isRun) =>
    `全收集（all-gather）：总和复制给所有人。每个算完的总和再绕环一圈，${each(isRun)}都留下一份。`,
  youCopy: (chunk, to, comes, from) =>
    `全收集（all-gather）：你把算完的块 ${chunk} 传给 rank ${to}，并留下 rank ${from} 发来的块 ${comes}。`,
  doneText: (isRun) => `现在${each(isRun)}都有同样的总和，所以都用同样的平均梯度走同样的一步。`,

  cell: (rank, chunk) => `rank ${rank} 的块 ${chunk}`,
  travelling: (chunk) => `途中的块 ${chunk}`,
  holdsAll: (n) => `全部 ${n} 个 rank 的总和，已算完`,
  holdsOwn: (rank) => `只有 rank ${rank} 的数`,
  holdsSome: (ranks) => `目前是 rank ${all(ranks)} 的和`,
  holdsMany: (first, last, count, n) => `目前是 ${n} 个 rank 中 ${count} 个的和，从 rank ${first} 沿环到 rank ${last}`,
  cellText: (what, holds, sums) => `${what}：${holds}${sums === '' ? '' : `，${sums}`}。`,
  chunk: (name, bytes) => `块 ${name}${bytes === null ? '' : `（${bytes}）`}：`,
  moves: (from, to, step, of) => (
    <>
      环上第 {step} 步（共 {of} 步），从 {from} 到 {to}。
    </>
  ),
  left: (ms, clock) => `这一块在本轮开始后 ${ms} 发出（rank ${clock} 的时钟）。`,
  arrived: (ms, clock) => `这一块在本轮开始后 ${ms} 到达（rank ${clock} 的时钟）。`,
  ownTimes: (clock, left, arrived) =>
    left === null && arrived === null
      ? `时间来自 rank ${clock}，它没有测量这一步。`
      : `rank ${clock} 无法测量这一次传送，所以按 rank ${clock} 的时间来画：${[
          ...(left === null ? [] : [`它自己的块在 ${left} 时发出`]),
          ...(arrived === null ? [] : [`它的下一块在 ${arrived} 时到达`]),
        ].join('，')}。`,
  noTimes: '时间是模拟的，不是测量的。',
  hint: '每行是一个 rank，每列是一块。格子里的小格表示谁的数已经加进总和。指向一格，就能跟随那一块。',
  grid: (n) => `每个 rank 的块：${n} 个 rank、${n} 块。用方向键逐格移动，Esc 离开。播放器的说明文字描述这一步。`,
  onEdges: '环上的块。用方向键在块之间移动，Esc 离开。',
  edge: (chunk, from, to) => `块 ${chunk}，从 rank ${from} 到 rank ${to}`,

  picture: (n, kind) => `${n} 个 rank 组成的环，正在交换数据块，${kind}。`,
  preview: '模拟预览',
  closes: '再有一个标签页加入，环就闭合了。',
  legend: (gradient) => <>每个胶囊是{gradient}的一块。里面的小格表示谁的数已经加进总和。</>,
  explore: '逐步看',
  fold: '收起',
  ranks: 'rank 个数',
  stage: '一步一步看全归约',

  replay: (step) => `回放第 ${step} 步`,
  bucket: (bucket, of, bytes) => `第 ${bucket}/${of} 桶，${bytes}`,
  connecting: '连接中',
  routes: { direct: '直连', relayed: '中继', memory: '同一浏览器' },
  membersOf: (title, isRing, names) =>
    `${title}。${isRing ? '环上的 rank 数：' : '没有环，rank 数：'}${names.length}：${names.map((name, rank) => `rank ${rank} ${name}`).join('、')}。`,
};
