import type { AllReduceName } from '../../../spec/algorithms.ts';
import { formatRank, namesOfRanks } from '../format.ts';
import type { UiMessages } from '../en/index.ts';

const each = (isRun: boolean): string => (isRun ? '每个 rank ' : '每个标签页');
const all = (ranks: readonly string[]): string => `${ranks.slice(0, -1).join('、')} 和 ${ranks.at(-1)}`;

const phases: UiMessages['ring']['phases'] = {
  'reduce-scatter': {
    title: '归约散播',
    text: (who) => `各块相加。${who}把一块传给右边，再把自己的数加到收到的那块上。`,
  },
  'all-gather': { title: '全收集', text: (who) => `总和复制给所有人。每个算完的总和再绕环一圈，${who}都留下一份。` },
  'group-reduce-scatter': {
    title: '组内相加',
    text: (who) => `每组是一个小环。${who}把几块传给右边，再把自己的数加到收到的块上。`,
  },
  'across-reduce-scatter': { title: '组间相加', text: (who) => `${who}把一块传给下一组的同一位置，在那里相加。` },
  'across-all-gather': { title: '组间复制', text: (who) => `${who}把算完的总和传给下一组的同一位置。` },
  'group-all-gather': { title: '组内复制', text: (who) => `算完的总和绕每组一圈，${who}都留下一份。` },
  fold: {
    title: '折叠',
    text: () => '参与者的个数不是 2 的幂，所以有些参与者先把自己的数交给相邻的一个，然后等结果。',
  },
  halving: { title: '折半', text: (who) => `两两交换一半的块。${who}发出一半，把另一半相加，下一步再分一半。` },
  doubling: { title: '加倍', text: (who) => `两两交换算完的总和。这一步之后，${who}算完的块多一倍。` },
  exchange: { title: '交换', text: (who) => `两两交换所有的数。这一步之后，${who}的和里参与者的个数翻倍。` },
  unfold: { title: '展开', text: () => '开始时交出自己的数的参与者收到结果。' },
};

const pictures: Record<AllReduceName, (n: number) => string> = {
  ring: (n) => `${n} 个 rank 组成的环`,
  'two-level': (n) => `${n} 个 rank 分组成环`,
  'halving-doubling': (n) => `${n} 个 rank 两两折半加倍`,
  doubling: (n) => `${n} 个 rank 两两加倍`,
};

export const ringTexts: UiMessages['ring'] = {
  restart: '回到开头',
  back: '后退一步',
  play: '播放',
  pause: '暂停',
  on: '前进一步',
  space: '空格',
  withKey: (does, key) => `${does}（${key}）`,
  place: '进行到哪里',
  done: (steps, of, isRing) => `${isRing ? '环上' : ''}共 ${of} 步，已完成 ${steps} 步`,
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
    step: (phase, hop, of) => (of === 1 ? phase : `${phase} ${hop}/${of}`),
    done: '全都相同',
    alone: '只有自己',
  },
  ownText: (isRun, chunks) =>
    chunks === 1
      ? `${each(isRun)}都用自己那份样本算出了梯度，梯度不切块。`
      : `${each(isRun)}都用自己那份样本算出了梯度，并切成 ${chunks} 块。`,
  phases,
  phaseText: (phase, isRun) => `${phases[phase].title}：${phases[phase].text(each(isRun))}`,
  whole: '整个梯度',
  oneChunk: (chunk) => `块 ${chunk}`,
  manyChunks: (first, last) => `块 ${first} 到 ${last}`,
  youMove: (phase, sent, got) => {
    const send = sent === null ? '' : `把${sent.adds ? '' : '算完的'}${sent.chunks}发给 ${formatRank(sent.rank)} `;
    const take =
      got === null
        ? ''
        : got.adds
          ? `把自己的数加到 ${formatRank(got.rank)} 发来的${got.chunks}上`
          : `留下 ${formatRank(got.rank)} 发来的${got.chunks}`;
    const both = send !== '' && take !== '' ? `${send}，并${take}` : `${send}${take}`;
    return `${phases[phase].title}：你${both === '' ? '等待其他 rank' : both}。`;
  },
  doneText: (isRun) => `现在${each(isRun)}都有同样的总和，所以都用同样的平均梯度走同样的一步。`,

  cell: (rank, chunks) => `${formatRank(rank)} 的${chunks}`,
  travelling: (chunks) => `途中的${chunks}`,
  sendsNothing: (rank) => `${formatRank(rank)} 在这一步不发送。`,
  holdsCount: (count, n) => `目前是 ${n} 个 rank 中 ${count} 个的和`,
  holdsAll: (n) => `全部 ${n} 个 rank 的总和，已算完`,
  holdsOwn: (rank) => `只有 ${formatRank(rank)} 的数`,
  holdsSome: (ranks) => `目前是 ${all(namesOfRanks(ranks) ?? ranks.map((one) => `rank ${one}`))} 的和`,
  holdsMany: (first, last, count, n) =>
    `目前是 ${n} 个 rank 中 ${count} 个的和，从 ${formatRank(first)} 沿环到 ${formatRank(last)}`,
  cellText: (what, holds, sums) => `${what}：${holds}${sums === '' ? '' : `，${sums}`}。`,
  chunk: (name, bytes) => `${name}${bytes === null ? '' : `（${bytes}）`}：`,
  moves: (from, to, step, of, isRing) => (
    <>
      {isRing ? '环上' : ''}第 {step} 步（共 {of} 步），从 {from} 到 {to}。
    </>
  ),
  left: (ms, clock) => `这次传送在本轮开始后 ${ms} 发出（${formatRank(clock)} 的时钟）。`,
  arrived: (ms, clock) => `这次传送在本轮开始后 ${ms} 到达（${formatRank(clock)} 的时钟）。`,
  ownTimes: (clock, left, arrived) =>
    left === null && arrived === null
      ? `时间来自 ${formatRank(clock)}，它没有测量这一步。`
      : `${formatRank(clock)} 无法测量这一次传送，所以按它的时间来画：${[
          ...(left === null ? [] : [`它自己的传送在 ${left} 时发出`]),
          ...(arrived === null ? [] : [`传给它的在 ${arrived} 时到达`]),
        ].join('，')}。`,
  noTimes: '时间是模拟的，不是测量的。',
  hint: '每行是一个 rank，每列是一块。格子里的小格表示谁的数已经加进总和。指向一格，就能跟随那一块。',
  grid: (n, chunks) =>
    `每个 rank 的块：${n} 个 rank、${chunks} 块。用方向键逐格移动，Esc 离开。播放器的说明文字描述这一步。`,
  onEdges: '途中的块。用方向键在块之间移动，Esc 离开。',
  edge: (chunks, from, to) => `${chunks}，从 ${formatRank(from)} 到 ${formatRank(to)}`,

  picture: (n, algorithm, kind) => `${pictures[algorithm](n)}，正在交换数据块，${kind}。`,
  preview: '模拟预览',
  closes: (isRing) => (isRing ? '再有一个标签页加入，环就闭合了。' : '再有一个标签页加入，这里就会显示全归约。'),
  still: (most) => `最多 ${most} 个标签页时，预览才会动。`,
  legend: (gradient) => <>每个胶囊是{gradient}的一块。里面的小格表示谁的数已经加进总和。</>,
  explore: '逐步看',
  fold: '收起',
  ranks: 'rank 个数',
  stage: '一步一步看全归约',

  replay: (step) => `回放第 ${step} 步`,
  bucket: (bucket, of, bytes) => `第 ${bucket}/${of} 桶，${bytes}`,
  connecting: '连接中',
  routes: {
    direct: '直连',
    relayed: '中继',
    memory: '同一浏览器',
    server: '服务器',
    'server-clear': '服务器，未加密',
  },
  served: (count, of, isClear) => {
    const links =
      count === null
        ? '经过服务器的连接。'
        : count === of
          ? `${of === 1 ? '这条连接' : `全部 ${of} 条连接都`}经过服务器。`
          : `${of} 条连接中有 ${count} 条经过服务器。`;
    return isClear ? `${links}没有 https 就不加密：服务器能读到梯度。` : links;
  },
  membersOf: (title, algorithm, names) =>
    `${title}。${algorithm === null ? `没有全归约的图，rank 数：${names.length}` : pictures[algorithm](names.length)}：${names.map((name, rank) => `rank ${rank} ${name}`).join('、')}。`,
};
