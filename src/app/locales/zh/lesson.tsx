import { formatRank, namesOfRanks } from '../format.ts';
import type { UiMessages } from '../en/index.ts';

const listed = (items: readonly (string | number)[]): string => items.join('、');

export const lessonTexts: UiMessages['lesson'] = {
  heading: '课堂',
  lessons: { title: '各堂课', lesson: '动手做全归约', pipeline: '动手做流水线' },
  simulated: '模拟：所有这些 rank 都在这个标签页里',
  place: (page, of) => `第 ${page} 页，共 ${of} 页`,
  next: '下一页',
  back: '上一页',
  pages: '课堂的各页',
  classIsAt: (page) => `全班在第 ${page} 页。`,
  goThere: '跳到那里',
  leading: '由你带领：全班跟着你翻页。',

  thoughts: {
    numbers: ({ k }) => ({
      title: `每人 ${k} 个数`,
      text: `每个标签页都有自己的 ${k} 个小数字。在训练中它们就是梯度：成千上万个数，说明模型该怎样改变。`,
      task: '想改就改你的数字。',
    }),
    goal: ({ n, firstSum }) => ({
      title: '大家都想要总和',
      text: (
        <>
          每个位置上都要 {n} 个标签页的总和。第一个位置是：<b class="nowrap">{firstSum}</b>
          。每个人都要全部的总和，却只有自己的一行。
        </>
      ),
      task: '如果只能传纸条，你会怎么做？',
    }),
    chunks: ({ n, chunks }) => ({
      title: '切成块',
      text: `标签页排成一个环，每个标签页只向右边的邻居发送。有几个标签页，一行就切成几块，这里是 ${n} 块：${chunks}。一个在算 A 的时候，下一个可以算 B：谁也不闲着。`,
    }),
    reduceScatter: ({ n }) => ({
      title: '第一圈：相加',
      text: `每一步，每个标签页把一块传给右边，再把自己的数加到从左边来的那一块上。${n - 1} 步之后，每个标签页都有一块算好的总和。这叫归约散播（reduce-scatter）。`,
      task: '一步一步来，盯住其中一块，看它怎么走。',
    }),
    allGather: ({ n }) => ({
      title: '第二圈：复制',
      text: `算好的总和再走一圈。这次谁也不加，每个标签页都留一份。再走 ${n - 1} 步，所有的行都一样。这叫全收集（all-gather），全归约（all-reduce）也就完成了。`,
      task: '继续，直到每一行都是同样的总和。',
    }),
    bytes: ({ n, k }) => ({
      title: '数一数字节',
      text: `一个数是 4 个字节。${2 * (n - 1)} 步里，每条链路每步送一块。所有步加起来，一条链路一共送 2 × ${k} × ${n - 1} ÷ ${n} 个数，不到两行。${k % n === 0 ? '没有哪条链路比别的多' : '各条链路差不多一样多（一个数不能再切开）'}。`,
      task: '链路可以同时收和发：每一步只算收、发中较大的那个量。',
    }),
    server: ({ n, k }) => ({
      title: '最容易想到的办法',
      text: `所有标签页都把自己的一行发给 rank 0，由它相加，再把总和发回来。这叫参数服务器。只要两步，可是 ${n - 1} 行、每行 ${k} 个数都从 rank 0 的链路进来，又有 ${n - 1} 行从这条链路出去。`,
      task: '选“参数服务器”，走完它的两步，看看各条链路。',
    }),
    compare: () => ({
      title: '更多标签页',
      text: '有 N 个标签页、每个 K 个数时，用参数服务器时最忙的链路要送 2K(N−1) 个数，用环时要送 2K(N−1)/N 个数。不管 N 是多少，在环上都不到两行。',
      task: '拖动滑块。十六台电脑，你会选哪种方法？',
    }),
    slow: () => ({
      title: '弄坏它：一条慢链路',
      text: '有一条链路，每送一块要好几秒。开始时只有这条链路另一端的标签页等待。下一步，再后面的标签页也要等。停顿每一步向前走一个 rank，直到整个环都按最慢的链路的速度走。',
      task: '让一条链路变慢，然后一次走完所有步，看时间线。',
    }),
    drop: () => ({
      title: '弄坏它：有人离开',
      text: '一个标签页关掉了，或者电池没电了。缺口两边的邻居互相连接，环重新合拢。这一轮用剩下的数重新开始。',
      task: '先走一两步，再移除一个 rank。',
    }),
    training: () => ({
      title: '标签页就是这样训练的',
      text: '把你的数换成梯度：这里最小的模型有 11 274 个数。训练的每一步里，标签页都做你刚才做的事，只要零点几秒（三十个标签页共用一个 Wi-Fi 时要一两秒），然后都用同样的总和更新模型。这就是数据并行训练（DDP）。',
    }),
  },

  own: {
    title: '你的数字',
    number: (place) => `你的第 ${place} 个数`,
    range: (most) => `−${most} 到 ${most} 的整数。`,
    locked: '下一轮开始之前不能改。',
    nextRound: '这些数从下一轮开始使用。',
    others: '换一批数字',
  },

  ring: {
    title: '环',
    label: (n, done, of) => `${n} 个 rank 组成的环；共 ${of} 步，已走 ${done} 步。`,
    star: (n) => `${n} 个 rank：都发给 rank 0，rank 0 再发给大家。`,
    slow: (seconds) => `慢：${seconds} 秒`,
    simulated: '模拟',
  },

  phases: {
    before: '准备好了',
    reduceScatter: '归约散播',
    allGather: '全收集',
    gathering: '发给 rank 0',
    returning: 'rank 0 发回',
    done: '全都一样',
  },
  steps: {
    title: '这一轮',
    round: (number) => `第 ${number} 轮`,
    taken: (done, of) => `第 ${done} 步，共 ${of} 步`,
    next: '下一步',
    all: '走完所有步',
    again: '新的一轮',
    leader: (who) => `由 ${who} 走每一步。`,
    moving: '进行中……',
    waitsFor: (rank) => `这个标签页在等 ${formatRank(rank)}。`,
    finish: '结束课堂',
    finishQuestion: '为所有人结束？',
    finishYes: '结束',
    finishNo: '继续',
  },

  lastStep: {
    ready: '还什么都没有发送：每一行都是各 rank 自己的数。',
    alone: '第二个标签页加入时，环就合拢了。',
    waiting: '你加入时这一轮已经开始。你将参加下一轮。',
    added: (sent, to, got, from, sum) =>
      `你把 ${sent} 传给 ${formatRank(to)}。${formatRank(from)} 把 ${got} 传给你，你加上了自己的数：${sum}。`,
    copied: (sent, to, got, from) =>
      `你把算好的 ${sent} 传给 ${formatRank(to)}，并留下一份 ${formatRank(from)} 传来的 ${got}。`,
    chunk: (name, numbers) => `${name}（${numbers}）`,
    gave: '你把自己的一行发给了 rank 0。',
    gathered: '所有的行都到了你这里，你把它们加起来了。',
    returned: '你把总和发给了大家。',
    took: '总和从 rank 0 回来了。',
  },

  grid: {
    caption: '每个 rank 现在的数',
    rank: 'Rank',
    you: '你',
    place: (place) => `位置 ${place}`,
    chunk: (name) => `块 ${name}`,
    sum: '应得的总和',
    waits: '等待下一轮',
    cell: (rank, place, text, ranks) =>
      ranks.length === 1
        ? `${formatRank(rank)}，${place}：${text}，是它自己的数。`
        : `${formatRank(rank)}，${place}：${text}，其中的数来自 ${namesOfRanks(ranks)?.join('、') ?? `rank ${listed(ranks)}`}。`,
    hint: '指向一个数，或用方向键移到它，就能看到是哪些数相加得来的。',
    some: (n) => `这里只显示你和你的邻居。共有 ${n} 个 rank。`,
  },

  modes: {
    title: '方法',
    ring: '环',
    'parameter-server': '参数服务器',
    note: '换一种方法会开始新的一轮。',
  },

  bytes: {
    title: '每条链路送了多少',
    line: (rank, bytes, sent, received) => `${formatRank(rank)}：链路 ${bytes}；发送 ${sent}，接收 ${received}。`,
    sent: '发送',
    received: '接收',
    busiest: (rank, bytes) => `最忙的链路是 ${formatRank(rank)} 的：${bytes}。`,
    equal: (bytes) => `每条链路都送了 ${bytes}。`,
    none: '还没有。',
    formula: (n, k) => `在这一轮中测得：${n} 个 rank，每个 ${k} 个数，每个数 4 字节。`,
    formulaSolo: (n, k) => `在这一轮中数出：${n} 个 rank，每个 ${k} 个数，每个数 4 字节。`,
  },

  compare: {
    title: '最忙的链路',
    tabs: '标签页数 N',
    numbers: (k) => `每个 K = ${k} 个数`,
    ring: '环，2K(N−1)/N',
    'parameter-server': '服务器，2K(N−1)',
    measured: (bytes) => `这里测得：${bytes}`,
    counted: (bytes) => `这里数出：${bytes}`,
    uneven: '（与公式略有不同：各块长度不完全相等）',
    times: (n) => `用参数服务器时，最忙的链路送的是 ${n} 倍。`,
  },

  stall: {
    title: '一条慢链路',
    from: '哪一条',
    line: (from, to) => `${formatRank(from)} 到 ${formatRank(to)}`,
    lineOf: (rank) => `${formatRank(rank)} 发送的`,
    seconds: '需要',
    longer: (seconds) => `每条消息 ${seconds} 秒`,
    slow: '让它变慢',
    fast: '恢复到和别的一样快',
    is: (rank, seconds) => `${formatRank(rank)} 发送的每条消息要多花 ${seconds} 秒。`,
    timeline: '谁在哪一步等待',
    row: (rank, waits) => `${formatRank(rank)}：${waits}。`,
    step: (step, time) => `第 ${step} 步用了 ${time}`,
    none: '走完第一步之后，时间线就会出现。',
    note: '一格是一个 rank 的一步。有斜线的格表示这个 rank 在等待。',
    simulatedClock: '时间是模拟的。',
    ownClocks: '每个 rank 的时间来自它自己的时钟。',
  },

  drop: {
    title: '移除一个 rank',
    who: 'Rank',
    yes: '移除',
    few: '至少要留下两个 rank。',
    room: '关掉一个标签页，或断开一台设备的网络。',
    host: '要移除一个 rank，可以由主持人移除一个成员，或者让一个人关掉自己的标签页。',
  },

  change: {
    left: (who, remain) =>
      `${listed(who)} 离开了。环现在把${who.length === 1 ? '它' : '它们'}的邻居相连，还剩 ${remain} 行数。`,
    joined: (who) => `${listed(who)} 加入了。`,
    rank: (rank, name) => formatRank(rank, name),
    restarted: '这一轮重新开始。',
    later: '从下一轮开始参加。',
  },

  solo: { ranks: 'Rank 数', startRoom: '开一个房间', lessonRoom: '和全班一起做' },
  over: {
    title: '课堂结束了。',
    text: '房间还开着：主持人可以再开始一次，或者用同样的标签页训练一个模型。',
  },
  room: { again: '重新开始', join: '重新加入', lobby: '回到房间' },
};
