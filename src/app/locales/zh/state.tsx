import type { Messages } from '../en/index.ts';

export const state: Messages['state'] = {
  finished: '已完成',
  stopped: '已停止',
  offline: '未连接',
  waiting: '等待中',
  waitingFor: {
    server: '：信令服务器不在，正在寻找',
    next: '：别人正在训练，等下一次开始',
    ready: '：正在准备',
    tabs: (more) => `：还差 ${more} 个标签页`,
    resume: '：等主持人继续',
    place: '：等一个空位',
    run: '：即将加入训练',
    you: '：等你开始',
    host: '：等主持人开始',
  },
  warmingUp: '热身中',
  stages: {
    data: '：正在加载数据',
    drawing: '：正在绘制数字',
    compiling: '：正在为这块 GPU 编译模型',
    recovering: '：GPU 丢失了，正在重新建立',
  },
  connecting: '连接中',
  connectingTo: (peers) =>
    peers.length === 0
      ? ''
      : `：${peers.map(({ rank, isRelayed }) => `rank ${rank}${isRelayed ? '（经中继）' : ''}`).join('、')}`,
  syncing: '同步中',
  syncingAbout: '：大家必须从同样的数开始',
  syncingFiles: '：文件正从一个标签页传到下一个',
  training: '训练中',
  trainingServerAway: '；信令服务器不在，只有加入和离开才需要它',
  trainingOthersJoin: '；有人正在加入',
  paused: '已暂停',
  pausedFor: (more) => `：还差 ${more} 个标签页`,
  pausedByHost: '：主持人暂停了训练',
  watching: '观看中',
  watchingNothing: '：还没有开始训练',
  comingBack: '正在回来',
  comingBackAbout: '：本标签页掉了队，其他人仍在训练',
  rejoining: '重新连接',
  rejoiningAbout: (gone) => `：${gone.length === 0 ? '' : `rank ${gone.join('、')} 离开了，`}正在重新组成环`,
  inBackground: (step, of) => `第 ${step}${of === null ? '' : `/${of}`} 步，在后台训练`,
};
