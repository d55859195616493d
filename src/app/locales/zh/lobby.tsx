import { formatBytes, formatClockDuration, formatCount, formatMs } from '../format.ts';
import type { AugmentName } from '../../../spec/names.ts';
import { type DataNote, describeFirstNotes, quoteFieldInSentence, totalNoteCount } from '../../../spec/preview.ts';
import type { UiMessages } from '../en/index.ts';
import { augmentTexts } from './job.tsx';

function named(notes: readonly DataNote[], describe: (note: DataNote) => string): string {
  const { first, others } = describeFirstNotes(notes, describe);
  return `${first.join('、')}${others > 0 ? `，另有 ${others} 项` : ''}`;
}

function inFolder({ name, count, example }: DataNote): string {
  return `${name === '' ? '文件夹之外' : `${name} 中`} ${formatCount(count)} 个（${example}）`;
}

function withExampleIn({ name, count, example }: DataNote): string {
  return `${name}（${quoteFieldInSentence(example)}，${formatCount(count)} 行）`;
}

function inRows({ name, count, example }: DataNote): string {
  return `${name} 中的${quoteFieldInSentence(example)}（${formatCount(count)} 行）`;
}

function withExample({ name, example }: DataNote): string {
  return example === '' ? name : `${name}（${quoteFieldInSentence(example)}）`;
}

export const lobbyTexts: UiMessages['lobby'] = {
  invite: '邀请',
  joinWith: '用这个房间码加入',
  copy: '复制链接',
  copied: '已复制 ✓',
  copyByHand: '请选中链接，手动复制',
  qr: (link) => `${link} 的二维码`,
  locked: '已锁定：别人不能再加入。',
  localOnly: (host) => `本页是在 ${host} 打开的，只有这台机器能访问。要邀请别人，请用他们能访问的地址打开。`,
  forOthers: (host, more, isSecure) =>
    `本页是在 ${host} 打开的；别人用链接里的地址访问这台机器${more.length === 0 ? '' : `（或 ${more.join('、')}）`}。` +
    (isSecure ? '' : '没有 https 时，他们的标签页找不到 GPU：请用 --https 启动服务器。'),
  ready: (count) => <>{count} 已就绪</>,
  count: (ready, of) => `${ready}/${of}`,
  watches: '观看',
  gettingReady: '正在准备……',
  receives: (percent) => `正在接收模型，${percent} %`,
  catchesUp: '已有一份模型，正在追赶',
  you: '你',
  host: '主持人',
  roles: (roles) => `（${roles.join('，')}）`,
  preview: '预览',
  previewLabel: (ranks) => `${ranks} 个 rank。`,
  jobWith: (job, model) => (
    <>
      {job} <span class="dim">用</span> {model}
    </>
  ),
  resumes: (step) => `训练从第 ${step} 步继续，本标签页保存了这一步。`,
  beginsWith: (file) => `训练以 ${file} 中的权重开始。`,
  start: '开始',
  waitingForHost: '等主持人开始。',
  automatic: (at, missing) => `有 ${at} 个标签页就绪时，训练自动开始${missing > 0 ? `（还差 ${missing} 个）` : ''}。`,
  shaders: '已编译的着色器',
  receiving: '已接收的模型',
  receivedOf: (bytes, total, rate) =>
    `${formatBytes(bytes)}，共 ${formatBytes(total)}` +
    (rate === null ? '' : `，每秒 ${formatBytes(rate)}，还需 ${formatClockDuration(((total - bytes) / rate) * 1000)}`),
  waits: (needs, left) =>
    `这条线路接收模型需要 ${formatClockDuration(needs * 1000)}，而训练改变模型更快。其他标签页继续训练，本标签页大约 ${Math.ceil(left / 60)} 分钟后加入。`,
  loading: '已加载的数据',
  loadedOf: ({ unit, done, total, rate }) =>
    `${unit === 'bytes' ? '已接收' : '已读取'} ${formatBytes(done)}，共 ${formatBytes(total)}` +
    (rate === undefined ? '' : `，每秒 ${formatBytes(rate)}`),
  shadersOf: (compiled, total) => `着色器 ${compiled}/${total}`,
  obstacle: {
    onlySpectators: '本标签页只观看，而且还没有能训练的标签页就绪。',
    files: '先选择数据文件。',
    unfit: '这些文件无法使用，错误见上。',
    warming: '本标签页还在准备。',
    tooFew: (min, ready) => `这里至少要 ${min} 个标签页才能开始，现在就绪 ${ready} 个。`,
    algorithm: (problem) => `${problem}请换一种算法，或者等更多标签页。`,
  },
  auto: {
    wouldSave: (tabs, name, autoMs, ringMs) =>
      `${tabs} 个标签页时，“自动”会选${name}：一步的全归约约 ${autoMs} 毫秒，用环约 ${ringMs} 毫秒（按普通 Wi-Fi 估算）。`,
    saves: (tabs, name, autoMs, ringMs) =>
      `${tabs} 个标签页时，“自动”选${name}：一步的全归约约 ${autoMs} 毫秒，用环约 ${ringMs} 毫秒（按普通 Wi-Fi 估算）。`,
    ring: (tabs) => `${tabs} 个标签页时，“自动”选环。`,
  },
  note: {
    unready: (names, isOpen) => {
      const who = names.length > 3 ? `${names.slice(0, 2).join('、')}等 ${names.length} 位` : names.join('、');
      return `${who}还没就绪，${isOpen ? '稍后会加入' : '会错过这次训练'}。`;
    },
    sentences: (first, second) => `${first}${second}`,
    laterOpen: '后来的人可以中途加入。',
    laterFixed: '后来的人要等这次训练结束才能加入。',
    oneAlone: '一个标签页可以独自开始，那样它就没有什么要交换的。',
    alone: '你可以独自开始，那样就没有什么要交换的。',
    all: (tabs) => `${tabs} 个标签页全部就绪。`,
  },
  server: {
    pairs: (pairs, of) =>
      of === 1
        ? '两个标签页的数据将经过服务器。'
        : `${of} 对相邻标签页中${pairs === of ? '' : `有 ${pairs} 对`}的数据${pairs === of ? '都' : ''}将经过服务器。`,
    step: (bytes, rate, ms) =>
      `服务器每步转发 ${formatBytes(bytes)} 梯度，至少需要 ${formatMs(ms)}（所有房间合计每秒最多 ${formatBytes(rate)}）。`,
    only: '服务器设为转发所有标签页的数据（--server-links only）。不带这个选项启动，就能直接连接。',
    remedy: '这些标签页之间无法直接连接。请换一个没有客户端隔离的网络，或者使用 TURN 服务器（--turn）。',
  },
  outside: {
    phases: {
      SYNCING: '这个房间正在准备训练。',
      RUNNING: '这个房间正在训练。',
      PAUSED: '这个房间的训练暂停了。',
    },
    watching: '你马上就能看到。',
    next: '你可以加入下一次训练。',
    unready: '本标签页准备好就会加入。',
    full: '训练已经满员。有标签页离开时，你就会加入。',
    soon: '你马上就会加入。',
    connecting: '正在连接。本标签页马上开始训练。',
    preparing: '本标签页正在准备，准备好就开始训练。',
    paused: (more) => `这个房间的训练暂停了。再有 ${more} 个标签页就能继续。`,
    pausedByHost: '主持人暂停了这个房间的训练。继续时你就会加入。',
  },
  files: {
    choose: {
      mnist: '选择 MNIST 文件',
      images: '选择文件',
      table: '选择表格（CSV、Parquet 或 xlsx）',
      gpt: '选择文章',
    },
    chooseFolder: '选择文件夹',
    drop: {
      mnist: '或者拖到这里：图像和标签（IDX，压缩与否都行）。一对就够。',
      images: '或者拖到这里：一个文件夹或 zip，每个类别的图片各放一个文件夹；一对 IDX 文件；含 x 和 y 的 npz 文件。',
      table: '或者拖到这里：第一行是列名，下面是数据。各列的内容会自动判断。',
      gpt: '或者拖到这里：纯文本（UTF-8）。多个文件按文件名依次读取。',
    },
    stay: '文件只留在本标签页；每个标签页都需要同样的文件。',
    own: '文件只留在本标签页，也只有本标签页用它们训练。其他标签页只得到梯度和数据的几个特征：类别的名称、文章用到的字符，以及表格每一列的名称、常见词语、均值和标准差。',
    reading: '正在读取文件……',
    count: (files) => `${files} 个文件`,
    rows: (rows, columns) => `${rows} 行，${columns} 列。`,
    firstRows: '前几行',
    notes: {
      'no-header': () => '第一行是数据，不是列名，各列按序号命名。',
      'row-names': ([note]) =>
        `第一行没有每行第一项（例如${quoteFieldInSentence(note!.example)}）的列名，所以不使用这一项。`,
      'rows-unlabelled': (notes) =>
        `有 ${formatCount(totalNoteCount(notes))} 行没有要预测的值，不使用：${named(
          notes,
          ({ example, count }) => `${example === '' ? '空白' : quoteFieldInSentence(example)} ${formatCount(count)} 行`,
        )}。`,
      'column-of-text': (notes) => `有 ${notes.length} 列不同的文字太多，不使用：${named(notes, withExample)}。`,
      'column-empty': (notes) =>
        `有 ${notes.length} 列没有值，不使用：${named(notes, (note) => (note.example === '' ? note.name : withExampleIn(note)))}。`,
      'numbers-as-words': (notes) => `同一列中有文字，所以数字按文字处理：${named(notes, withExample)}。`,
      'digits-as-words': (notes) =>
        `含数字但不是普通数值的内容（如日期、时间、范围）按文字处理：${named(notes, withExample)}。`,
      'words-alike': (notes) => `仅大小写、空格或相近符号不同的文字按不同的文字处理：${named(notes, withExample)}。`,
      marker: (notes) => `以下的值视为缺失：${named(notes, inRows)}。`,
      'maybe-missing': (notes) => `以下的值按数值读取，但可能表示缺失：${named(notes, inRows)}。如果是缺失，请留空。`,
      'mark-guessed': (notes) => `文件中看不出小数点的写法，以下按推测读取：${named(notes, withExample)}。`,
      unit: (notes) => `读取数值时去掉单位：${named(notes, withExample)}。`,
      'unit-missing': (notes) => `没有单位的值与有单位的值同样读取：${named(notes, withExampleIn)}。`,
      notation: (notes) => `以下数值改写后读取：${named(notes, withExample)}。`,
      'class-above': (notes) =>
        `图片的类别是 ${named(notes, ({ name, example }) => `${quoteFieldInSentence(name)} 的上一级文件夹名（如 ${example}）`)}。`,
      'folders-merged': (notes) =>
        `同名的文件夹合为一个类别：${named(notes, ({ name, count, example }) => `${quoteFieldInSentence(name)}（${formatCount(count)} 个文件夹，如 ${example}）`)}。`,
      'files-ignored': (notes) =>
        `${formatCount(totalNoteCount(notes))} 个文件不是本任务读取的类型，不使用：${named(notes, inFolder)}。`,
      'folder-hidden': (notes) =>
        `${formatCount(totalNoteCount(notes))} 个文件在隐藏的文件夹中，不使用：${named(notes, inFolder)}。如需使用，请重命名文件夹。`,
      'names-guessed': (notes) =>
        `zip 文件中有 ${formatCount(totalNoteCount(notes))} 个名称不是 UTF-8，按以下编码读取：${named(notes, withExample)}。如果不对，请用 UTF-8 名称重新打包，或重命名文件夹。`,
      'pictures-undecoded': (notes) =>
        `${formatCount(totalNoteCount(notes))} 张图片已损坏，或此浏览器不能解码其格式，不使用：${named(notes, inFolder)}。请替换或转换。`,
      'folder-left-out': (notes) =>
        `以下图片所在的文件夹不是类别，不参与训练：${named(
          notes,
          ({ name, count }) => `${name === '' ? '文件夹之外' : `${name} 中`}的 ${count} 张图片`,
        )}。`,
      'class-not-held-out': (notes) =>
        `有 ${notes.length} 个类别没有留作测试的样本，不评估：${named(notes, ({ name, count }) => `${quoteFieldInSentence(name)}（${formatCount(count)} 个样本）`)}。`,
      augmented: (notes) =>
        `训练图片在每一轮中都会随机改变：${named(notes, ({ name }) => augmentTexts[name as AugmentName])}。页面的预览中是例子。留作测试的图片不变。`,
      'sheets-left-out': ([note]) => `只读取工作表 ${quoteFieldInSentence(note!.name)}，不读取：${note!.example}。`,
      'utf-16': (notes) => `${totalNoteCount(notes)} 个文本按 UTF-16 读取：${named(notes, ({ example }) => example)}。`,
      markup: (notes) =>
        `${totalNoteCount(notes)} 个文本是 HTML 或 XML，模型也会学习其中的标签：${named(notes, ({ example }) => example)}。如不需要，请导出纯文本。`,
      'weights-left-out': (notes) =>
        `权重文件中有 ${formatCount(totalNoteCount(notes))} 个数组不是层的权重，不使用：${named(
          notes,
          ({ name, count, example }) => `${name}（${example === '' ? `${formatCount(count)} 个` : example}）`,
        )}。`,
      'weights-rounded': (notes) =>
        `${formatCount(totalNoteCount(notes))} 个权重数组从 float64 舍入为 float32：${named(notes, ({ name }) => name)}。`,
      'weights-normalization': (notes) =>
        `文件中的模型用均值和方差对输入做标准化，而本次训练不做：${named(notes, ({ name }) => name)}。请用同样的方式对样本做标准化。`,
    },
    decimalComma: '逗号作小数点',
    kinds: { number: '数值', category: '类别', text: '文字：不使用', empty: '空：不使用' },
    missing: (rows) => `缺 ${formatCount(rows)} 个`,
    distinct: (values) => `${formatCount(values)} 种取值`,
    predicts: (target, task) => (
      <>
        要预测：{target}
        {task !== null && (task === 'classification' ? '（作为类别）' : '（作为数量）')}。
      </>
    ),
    characters: (characters, vocabulary) =>
      `${formatCount(characters)} 个字符；词表有 ${formatCount(vocabulary)} 个 token。`,
    samples: (samples, heldOut) => `${samples} 个样本，其中 ${formatCount(heldOut)} 个留作测试。`,
    shape: (height, width, channels) =>
      height * width === 1 ? `每个 ${channels} 个数。` : `每个 ${height} × ${width} × ${channels}。`,
    classes: '类别',
    more: (classes) => `还有 ${classes} 类`,
    pictures: '其中几张',
  },
  sharedFiles: {
    reading: '正在读取文件',
    go: '文件只留在本房间。训练开始时，由本标签页发给其他标签页。',
    lacking: '本标签页已经没有这些文件。请重新选择，除非房间里另有标签页持有它们。',
    watching: '本标签页只观看，没有连接，所以无法发送文件。主持人必须是参加训练的标签页。',
    none: '主持人还没有选择文件。',
    fromHost: '训练开始时，主持人共享这些文件：',
  },
  guests: {
    title: '来宾看到什么',
    about: '这只对通过链接或二维码进来的人有效。输入房间码的人看到全部。',
    parts: {
      job: '任务设置',
      player: '环的播放器',
      grid: '每个 rank 的块',
      curves: '损失和准确率',
      timeline: '时间线',
      ranks: '各 rank 与连接',
      inspection: '模型学到了什么',
    },
  },
  controls: {
    lock: '锁定房间',
    unlock: '解锁房间',
    lockAbout: '别人不能再加入；掉线的人可以回来',
    unlockAbout: '让别人可以再加入',
    pause: '暂停训练',
    pauseAbout: '所有标签页在当前这一步之后等待；不会丢失任何进度',
    resume: '继续训练',
    resumeAbout: '届时在场的标签页接着训练',
    stop: '停止训练',
    stopQuestion: '为所有人停止？',
    stopYes: '停止',
    stopNo: '继续',
    remove: '移除',
    removeWhom: (name) => `移除 ${name}`,
    removeAbout: '该标签页离开房间。如果不让它再加入，请同时锁定房间',
    removeQuestion: (name) => `移除 ${name}？`,
    keep: '保留',
  },
};
