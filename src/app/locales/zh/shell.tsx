import type { UiMessages } from '../en/index.ts';

export const shellTexts: UiMessages['shell'] = {
  title: '用许多标签页训练一个模型',
  leave: '离开',
  leaveQuestion: '离开房间？',
  leaveAbout: '其他标签页会继续训练。没有保存的模型会丢失。',
  stay: '留下',
  close: '关闭',
  invite: '邀请别人：房间码、链接和二维码',
  dismiss: '知道了',
  page: '页面',
  howItWorks: '它如何工作',
  largeLetters: '大字，适合投影',
  fullScreen: '全屏',
  light: '浅色',
  dark: '深色',
  language: '语言',
  recording: '下载飞行记录',
  recordingAbout: '本 rank 最近的集合通信（JSON）：比较几个 rank 的记录，就能看出谁在等谁',
  failure: (message) => <>出了问题：{message}</>,
  pageMissing: '这个页面无法加载。请检查网络，然后重新加载页面。',
  footer: '梯度在浏览器之间直接传送。如果网络不允许，则由服务器转发。',
  thoughts: [
    '每个标签页都有同样的模型，并负责一部分样本。',
    '每个标签页用自己的样本算出梯度：模型里的每个数该往哪边走。',
    '标签页排成一个环。有几个标签页，每个就把梯度切成几块，并把块传给右边。第一圈把各块相加（reduce-scatter），第二圈把总和复制给所有标签页（all-gather）。',
    '现在所有标签页都得到同样的平均值，走同样的一步。它们始终一个比特都不差，就像一个标签页看过了全部样本。',
  ],
  straight: '数据块在浏览器之间直接传送。服务器只帮标签页建立连接，从不看到梯度。',
  keys: (key) => (
    <>
      按键：{key('空格')} 播放或暂停，{key('←')} {key('→')} 单步，{key('Home')} {key('End')} 到两端，{key('[')}{' '}
      {key(']')} 调速，{key('?')} 打开这份帮助，{key('Esc')} 关闭它。
    </>
  ),
};
