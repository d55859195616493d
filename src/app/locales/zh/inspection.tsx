import { formatCount } from '../format.ts';
import type { UiMessages } from '../en/index.ts';

export const inspectionTexts: UiMessages['inspection'] = {
  title: '模型学到了什么',
  all: (n, steps, state) => (
    <>
      {n === 1 ? '由本标签页的模型回答' : `全部 ${n} 个 rank 持有同一个模型`}。它已训练 {steps} 步（{state}）。
    </>
  ),
  own: (rank, steps, state) => (
    <>
      在两次交换之间，每个 rank 都有自己的模型。这里由 rank {rank} 的模型回答，它已训练 {steps} 步（{state}）。
    </>
  ),
  state: '状态指纹',
  asking: '正在询问模型……',
  none: '本标签页没有模型，因为它只是观看，或者 GPU 已丢失。下一次训练会创建新的模型。',

  draw: '写一个数字',
  pad: (strokes) =>
    `手写板，${strokes === 0 ? '空白' : `${strokes} 笔`}。方向键移动笔，空格键落笔或提笔，Delete 键清除手写板。`,
  padImage: (label) => `一张数字 ${label} 的测试图片。在上面书写即可重新开始。Delete 键清除手写板。`,
  hint: '用手指或鼠标书写。用键盘时，方向键移动笔，空格键落笔或提笔。',
  clear: '清除',
  seen: '模型的输入',
  orAsk: '或者选一张模型没有训练过的图片：',
  askAbout: (label) => `使用这张数字 ${label} 的测试图片`,

  answer: '它的回答',
  nothing: '还没有写。',
  reads: (digit) => `模型认为是数字 ${digit}。`,
  digit: '数字',
  probability: '概率',
  likeliest: '最可能',

  mistakes: '它认错的',
  wrong: (wrong, asked) =>
    wrong === 0
      ? `${asked} 张测试图片，模型没有认错。`
      : `${asked} 张测试图片中认错 ${wrong} 张。这里显示置信度最高的错误。`,
  mistake: (label, guess, share) => (
    <>
      {label} 认成了 {guess}（{share}）
    </>
  ),

  confusion: {
    title: '混淆矩阵',
    about: (samples, step) =>
      `第 ${step} 步之后对全部 ${formatCount(samples)} 个测试样本的预测。每行是一个真实类别，每列是一种预测。颜色越浓，占该行的比例越大。`,
    most: (truth, answer, times) => (
      <>
        最常认错的：把 {truth} 认成 {answer}（{times} 次）。
      </>
    ),
    none: '全部预测正确。',
    truth: '真实类别',
    answer: '预测',
  },

  weights: '第一层的权重',
  pixelsOfUnit: (count, units) =>
    `每张小图是 ${units} 个单元之一${count < units ? `（显示 ${count} 个）` : ''}。颜色表示哪里有墨会激活这个单元，哪里有墨会抑制它。`,
  windowOfUnit: (units, side) =>
    `每张小图是 ${units} 个滤波器之一，滤波器在图片上滑动。小图是最能激活这个滤波器的 ${side} × ${side} 像素的窗口。`,
  pictures: (count, scale) => `${count} 张第一层权重图，数值从 −${scale} 到 +${scale}。`,
  inhibits: '抑制',
  activates: '激活',
};
