import { formatBytes, formatMs, formatRank } from '../format.ts';
import type { UiMessages } from '../en/index.ts';
import type { Notice } from '../../../protocol/notices.ts';
import { CODECS } from '../../../spec/codecs.ts';
import { strategyTexts } from './job.tsx';

const ranksOf = (all: readonly number[]): string => `rank ${all.join('、')}`;

const NETWORK =
  '请检查这台机器的网络（VPN、防火墙、访客 Wi-Fi）。如果标签页在不同的网络中，服务器需要 TURN 中继（--turn）或经由服务器的链路（--server-links on）。';
/** Why the other ranks continue without this tab. */
const SUSPENSIONS: Record<Extract<Notice, { code: 'suspended' }>['reason'], string> = {
  unreachable: `其他 rank 无法通过网络连接到本标签页，所以在没有它的情况下继续训练。${NETWORK}`,
  unstable: `本标签页与其他 rank 之间的链路多次中断，所以它们在没有它的情况下继续训练。${NETWORK}`,
  late: '其他 rank 等待本标签页超过了时限，所以在没有它的情况下继续训练。请关闭这台机器上的其他程序和标签页，或请主持人减小批大小。',
  stuck: '本标签页没有结束此前的工作，所以其他 rank 在没有它的情况下继续训练。如果不能自行恢复，请重新加载。',
  hanging:
    '本标签页计算时没有响应的时间比以往的工作所需的更长，所以其他 rank 在没有它的情况下继续训练。如果不能自行恢复，请重新加载。',
  alone: '本标签页多次报告其他 rank 没有发现的故障，所以它们在没有它的情况下继续训练。请重新加载，并检查网络。',
  failing: `每次有本标签页参加的连接都失败了，所以其他 rank 在没有它的情况下继续训练。${NETWORK}`,
  apart:
    '其他 rank 在本标签页无法到达的网络中，所以它们在没有它的情况下训练。请使用与它们相同的网络，或请求使用有 TURN 中继（--turn）或经由服务器的链路（--server-links on）的服务器。',
};

/** Returns the task that a rank computes, in quotes. Names of tasks are English. */
function quotedTask(task: string): string {
  return task === '' ? '' : `“${task}”`;
}

export const runTexts: UiMessages['run'] = {
  simulated: (ranks) =>
    `模拟：这 ${ranks} 个 rank 并不存在。时间由全归约的计划和模拟的网络算出，损失和准确率由公式算出。`,
  simulatedRing: (note, problem) => `${note}${problem}这些 rank 用环。`,
  title: '训练',
  ring: '环',
  allReduce: '全归约',
  ranks: '各 rank',
  curvesSection: '曲线',
  holds: '每个 rank 的块',
  ranksPanel: '各 rank',
  timeline: '时间线',
  links: '环上的连接',
  startAgain: '重新开始',
  joinAgain: '重新加入',
  backToLobby: '回到大厅',
  frontPage: '首页',
  /** The run was ended before its last step. */
  ended: (steps) => `训练了 ${steps} 步后结束`,
  notices: {
    'lost-place': () =>
      '本标签页与服务器的连接断开，失去了在房间中的位置，所以训练在没有它的情况下结束了。本标签页仍有最后一步的模型。请保存，或参加下一次训练。',
    'missed-end': () => '本标签页重新连接到房间时，训练已经结束。',
    hangs: ({ rank, name, task, seconds, isOver }) =>
      `${formatRank(rank, name)} 在计算${quotedTask(task)}，${seconds} 秒没有响应，所以${
        isOver ? '训练结束了。请重新加载该页面，然后重新开始。' : '其他 rank 在没有它的情况下继续训练。'
      }`,
    'hangs-here': ({ task, seconds }) =>
      `本标签页在计算${quotedTask(task)}，${seconds} 秒没有响应。如果不能继续，请重新加载。`,
    suspended: ({ reason, seconds }) => `${SUSPENSIONS[reason]}最多 ${seconds} 秒后会再次尝试本标签页。`,
  },
  alone: '只有这一个标签页，没有什么可交换的。',
  aloneShown: (allReduce) => <>只有这一个标签页，没有什么可交换的。标签页多了，这里就会显示{allReduce}。</>,
  nextRound: (allReduce) => <>下一次{allReduce}将在这里重放。</>,

  distribution: {
    files: {
      title: '文件',
      about: (held, total) => `本标签页已有 ${formatBytes(held)}，共 ${formatBytes(total)}。`,
      all: (total) => `本标签页已有全部 ${formatBytes(total)}，正在发给其他标签页。`,
    },
    state: {
      title: '模型',
      about: (held, total) =>
        `本标签页已收到模型的 ${formatBytes(held)}，共 ${formatBytes(total)}。收完后大家继续训练。`,
      all: (total) => `新加入的标签页正在接收当前模型（${formatBytes(total)}）。收完后大家继续训练。`,
    },
  },

  stepLabel: '步数',
  sampleRate: '样本/秒',
  ownRate: '自己的样本/秒',
  loss: '损失',
  ranksUnit: () => '个 rank',
  sameState: '状态一致？',
  notYet: '尚未比较',
  oneCopy: '只有一份',
  allAgree: '全部一致',
  notAgreeing: (odd, of) => {
    if (odd.length === 0) return '不全一致';
    return odd.length <= 2 ? `${ranksOf(odd)} 不一致` : `${of} 个中 ${odd.length} 个不一致`;
  },
  overlapped: (share) => `${share} 重叠`,
  choice: ({ codec, ownMs, exposedMs, bytesPerMs, expectedMs, suggestion }) => {
    const { title } = CODECS[codec];
    const speed = `${(bytesPerMs / 1000).toFixed(1)} MB/s`;
    const added = `使每步 ${formatMs(ownMs)} 的计算多等 ${formatMs(exposedMs)}`;
    const reason =
      codec === 'fp32'
        ? `通信${added}（${speed}）。编码能省下的时间太少，不值得为此引入舍入误差。`
        : `用 fp32 时（${speed}），通信${added}。改用 ${title} 后预计约 ${formatMs(expectedMs[codec])}。`;
    const advice = suggestion ? `这仍占一步的一半以上。${strategyTexts[suggestion].name} 的通信次数更少。` : '';
    return `编码：${title}。${reason}${advice}`;
  },
  timeLeft: '剩余时间',
  done: '完成',

  whereStepGoes: '各 rank 一步的用时',
  oneStep: '一步',
  reading: '读取样本',
  dataLimits: (percent) => `读取样本占一步的 ${percent}%。换用更小的文件会更快。`,
  computation: '计算',
  communication: '通信',
  rest: '其他',
  longest: (straggler) => <>计算最久的是{straggler}</>,
  statisticsLater: (every) => `第一次交换统计之后显示时间。各 rank 每 ${every} 步交换一次统计。`,
  laneLabel: (rank, computation, communication, step) =>
    `rank ${rank}：计算 ${computation}，通信 ${communication}，一步 ${step}`,

  rank: 'rank',
  device: '设备',
  perSecond: (samples) => `${samples}/秒`,
  impossibleSpeed: (reported) => `不可能的速度：${reported}`,
  shareReasons: {
    equal: '每个 rank 计算一步中相等的份额。',
    unknown: '在测出各 rank 的速度之前，份额相等。',
    similar: '份额相等，因为按速度分配省下的时间太少。',
    speed: '份额按测得的各 rank 速度（每秒样本数）分配。',
    overhead: '份额相等：更小的批次多花的时间会超过按速度分配省下的时间。',
  },
  sent: '已发送',
  received: '已接收',
  link: '连接',
  state: '状态',
  remove: '移出',
  you: '（你）',
  hasLeft: '已离开',
  joinsSoon: '马上加入',
  waitsForNext: '等待下一次训练',
  connecting: '正在连接……',
  isHidden: '标签页被隐藏',
  to: '到',
  route: '路径',
  routes: {
    direct: '直连',
    relayed: '中继',
    memory: '同一浏览器',
    unknown: '已连接',
    server: '服务器',
    'server-clear': '服务器，未加密',
  },
  connections: (count) => `${count} 个连接`,
  roundTrip: '往返',
  transit: '一块用时',
  rate: '通信时',

  measured: {
    accuracy: (steps, time) => `的测试样本分类正确，共 ${steps} 步，用时 ${time}。`,
    'top-3': (steps, time) => `的测试样本，其类别在最可能的三个之中，共 ${steps} 步，用时 ${time}。`,
    rmse: (steps, time) => `是测试样本上的均方根误差，共 ${steps} 步，用时 ${time}。`,
    mae: (steps, time) => `是测试样本上的平均绝对误差，共 ${steps} 步，用时 ${time}。`,
    r2: (steps, time) => `是 R²，即测试样本的方差中被解释的比例，共 ${steps} 步，用时 ${time}。`,
  },
  rateTest: {
    found: (steps, time) =>
      `是合适的学习率。学习率逐步升高（${steps} 步，用时 ${time}），损失在这里下降最快。测试没有改变模型。`,
    none: '没有找到学习率',
    flat: (steps) => `${steps} 步里没有一个学习率使损失明显下降。请加大批或增加步数，并检查标签是否与数据相符。`,
    short: (steps) => `测试在 ${steps} 步之后过早结束，因为损失一开始就上升，或时间已到。请给更多时间，或换数据。`,
  },
  useRate: (rate) => `使用 ${rate}`,
  bestTest: '最低测试损失',
  afterStep: (step) => `第 ${step} 步之后`,
  stepTook: '一步用时',
  ofThatCommunication: (ms) => `其中通信 ${ms}`,
  sentOnAverage: '平均每个 rank 发送',
  eachSent: '每个 rank 发送',
  nothing: '没有',
  theory: (bytes, more) => `与理想的环（${bytes}）相比 ${more}`,
  ringWouldSend: (bytes) => `用环则为 ${bytes}`,
  finalState: '最终状态',
  apart: (odd) => `${ranksOf(odd)} 不一致`,
  changeJob: '更换任务',
  hostMayStart: '主持人可以重新开始。',

  kinds: {
    data: '读取样本',
    compute: '计算',
    readback: '读回',
    update: '更新',
    send: '发送',
    wait: '等待另一个 rank',
    reduce: '归约',
    exchange: '交换',
    forward: '前向',
    backward: '反向',
  },
  slowest: '最慢的一步',
  newest: '最新',
  allSteps: '全部',
  closer: '放大（+）',
  further: '缩小（−）',
  step: (step) => `第 ${step} 步`,
  timelineLabel: (n) => `${n} 个 rank 最近几步的时间线。方向键逐段移动，加减键缩放。后面有最近一步的表格。`,
  timelineHelp: '每行的上半部分是计算，下半部分是通信。指向一段可看详情。拖动可移动；双指或 + − 可缩放。',
  whoDoes: (rank, name, does) => `${formatRank(rank, name)}：${does}`,
  howLong: (ms, from, to, step) => `${ms}，第 ${step} 步的 ${from} 到 ${to}。`,
  commands: (dispatches, submits) => `这一步里，GPU 收到 ${dispatches} 次派发，分 ${submits} 次提交。`,
  aligned: (error, you) =>
    `各 rank 的时钟按同一次交换的结束时刻对齐。各行之间最多可能错开 ${error}。` +
    (you === null
      ? '每一行都按该 rank 的记录显示。'
      : '你自己的一行是精确的。其他 rank 报告最近 16 步，每步至多 24 段。'),

  who: (rank, name) => formatRank(rank, name),
  stragglersLater: (every) => `第一次交换统计之后，显示慢的 rank 和连接。各 rank 每 ${every} 步交换一次统计。`,
  nobodySlow: '没有谁拖慢环：各 rank 和各连接都差不多快。',
  slowRank: (who, causes) => `${who} 拖慢了环：${causes.join('，')}。`,
  slowComputing: (times) => `它的计算用时是其他 rank 的 ${times} 倍`,
  slowOtherwise: (times) => `它自己的工作用时是其他 rank 的 ${times} 倍，尽管计算并不慢`,
  hiddenTab: '它的标签页被隐藏',
  slowLink: (from, to, ms, times, relayed) =>
    `从 ${from} 到 ${to} 的连接拖慢了环：一块要 ${ms}，是其他连接的 ${times} 倍${relayed ? '，而且经过中继' : ''}。`,
  slowHere: {
    label: '本标签页为什么慢',
    title: (times) => `本标签页较慢：其他 rank 的速度是它的 ${times} 倍。这台机器上可能的原因：`,
    reasons: {
      hidden: {
        why: '本标签页被隐藏，或曾被隐藏。浏览器会让隐藏的标签页变慢。',
        help: '请让它保持可见，例如放在单独的窗口里。',
      },
      software: {
        why: 'GPU 由 CPU 模拟。',
        help: '请在浏览器设置里打开硬件加速，然后重启浏览器。',
      },
      insecure: {
        why: '本页是用普通 http 打开的，浏览器因此不提供 WebGPU。',
        help: '请向主持人要 https 链接。',
      },
      browser: {
        why: '这个浏览器没有 WebGPU。',
        help: '请使用新版的 Chrome、Edge 或 Safari。',
      },
      adapter: {
        why: '没有 WebGPU 能用的 GPU。',
        help: '请在浏览器设置里打开硬件加速，并更新显卡驱动。',
      },
      battery: {
        why: '这台机器正在用电池，可能在节能。',
        help: '请接上电源。',
      },
      saver: {
        why: '浏览器每秒只画 30 帧，像处于低电量模式。',
        help: '请关闭低电量模式或省电模式，或接上电源。',
      },
    },
    unknown: '没有发现常见的原因。可能有别的程序在占用这台机器：请关闭不需要的程序。',
  },
  separated: (a, b) => `${a} 与 ${b} 不再相邻。它们之间的连接拖慢了环，因此环的顺序改变了。`,

  keep: {
    title: '保存模型',
    as: '模型保存为',
    formats: { safetensors: 'safetensors', tfjs: 'TensorFlow.js', keras: 'Keras 3' },
    about: {
      safetensors: '按名称保存的权重，供 Python、PyTorch 等使用。',
      tfjs: '含 model.json 与 weights.bin 的 zip。解压后可用 tf.loadLayersModel 读取。',
      keras: '.weights.h5 文件：供层相同的模型用 load_weights 读取。',
    },
    noLayers: '这个模型不是由 TensorFlow.js 的层构成的，所以其他格式无法描述它。',
    inStages: '每个标签页只有部分层，所以各标签页在当前步之后一起写文件。运行结束后，只有 rank 0 的标签页有这个文件。',
    save: '保存模型',
    saving: '正在保存……',
    which: '权重取自',
    whichOf: { last: '最后一步', best: '本标签页最好的一次测试' },
    missedBest: (saved: number, best: number) =>
      `本标签页错过了最好的一次测试（第 ${best} 步之后）。保存的是第 ${saved} 步之后的模型。`,
    checkpoint: '保存检查点',
    checkpointAbout: '权重、优化器状态与数据位置：用任意数量的标签页都能继续',
  },

  curves: '曲线（CSV）',
  picture: '曲线（PNG）',
  pictureTitle: '把当前显示的曲线存为图片',
  curvesTitle: '每一步的损失、准确率和 rank 数，可用电子表格打开',
  trace: '时间线（Perfetto）',
  traceTitle: '所有 rank 最近几步的跟踪文件：用 ui.perfetto.dev 或 chrome://tracing 打开',

  openRecordings: '查看记录 ↗',

  recording: {
    title: '查看飞行记录',
    lead: '一份记录保存了一个 rank 最近的集合通信、训练步和数据块。打开同一次训练中几个 rank 的记录，就能看出谁在等谁。',
    choose: '选择记录',
    drop: '或拖放到这里：peergrad-flight-rank-*.json。文件只留在这个标签页里。',
    files: '记录',
    wrong: (file, what) => `无法显示 ${file}：${what}`,
    notJson: (message) => `它不是 JSON（${message}）。请重新下载。`,
    notOurs: (path, message) => `它不是飞行记录：${path === '' ? '' : `${path}：`}${message}。`,
    otherRun: (rank) =>
      `它与已打开的记录不属于同一个 generation，或者已经打开了 rank ${rank} 的记录。请先清空已打开的记录。`,
    clear: '清空',
    of: (rank, worldSize, generation) => `rank ${rank}，共 ${worldSize} 个，generation ${generation}`,
    noRound: '这份记录里没有可以回放的全归约。',
    round: '全归约',
    roundOf: (step, bucket) => `第 ${step} 步，第 ${bucket} 桶`,
    from: '测量者',
    timeline: '最近几步',
    noSteps: '没有记录到训练步。',
    save: '保存为 Perfetto 文件',
    collectives: '集合通信，最新的在前',
    group: '组',
    number: '序号',
    call: '调用',
    algorithm: '算法',
    took: '用时',
    filesMissing: (missing) => `缺少 ${ranksOf(missing)} 的记录。请添加缺少的文件。`,
    allThere: '这里记录的每个 rank 都参加了每一次集合通信，而且全部完成。',
    onlyOne: '只打开了一份记录，所以不知道其他 rank 做了什么。',
    missing: (missing, call, waiting) =>
      `${ranksOf(missing)} 从未进入 ${call}${waiting.length === 0 ? '' : `，${ranksOf(waiting)} 在等待`}。`,
    stuck: (stuck, call) => `${call} 在 ${ranksOf(stuck)} 上尚未结束，尽管这里记录的每个 rank 都进入了它。`,
    differs: (seq, calls) => `各 rank 的第 ${seq} 号调用不同：${calls.join('；')}。`,
    states: {
      scheduled: '未开始',
      started: '进行中',
      completed: '完成',
      failed: '失败',
      absent: '缺席',
      unknown: '',
    },
    shown: (n, of) => `共 ${of} 条，显示最新的 ${n} 条。`,
  },
};
