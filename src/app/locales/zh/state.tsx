import { formatRank } from '../format.ts';
import type { UiMessages } from '../en/index.ts';

export const stateTexts: UiMessages['state'] = {
  finished: '已完成',
  stopped: '已停止',
  offline: '未连接',
  waiting: '等待中',
  waitingFor: {
    server: '：信令服务器不在，正在重连',
    next: '：这次训练已经开始，等下一次开始',
    ready: '：正在准备',
    tabs: (more) => `：还差 ${more} 个标签页`,
    resume: '：等主持人继续',
    place: '：等一个空位',
    run: '：即将加入训练',
    you: '：等你开始',
    host: '：等主持人开始',
  },
  warmingUp: '预热中',
  stages: {
    data: '：正在加载数据',
    generating: '：正在生成数字',
    compiling: '：正在为本设备编译模型',
    layers: '：正在接收模型的层',
    recovering: '：GPU 丢失了，正在重新设置',
    receiving: '：正在接收模型，其他标签页继续训练',
  },
  connecting: '连接中',
  connectingTo: (peers) =>
    peers.length === 0
      ? ''
      : `：${peers.map(({ rank, isRelayed }) => `${formatRank(rank)}${isRelayed ? '（经中继）' : ''}`).join('、')}`,
  syncing: '同步中',
  syncingAbout: '：所有 rank 必须从同样的状态开始',
  syncingWhat: {
    files: '：正在标签页之间分发文件',
    state: '：新加入的标签页正在接收当前模型',
  },
  training: '训练中',
  trainingServerAway: '；信令服务器不在：新标签页无法加入；若有标签页离开，训练会等待服务器恢复',
  trainingOthersJoin: '；正在连接下一个环',
  paused: '已暂停',
  pausedFor: (more) => `：还差 ${more} 个标签页`,
  pausedByHost: '：主持人暂停了训练',
  watching: '观看中',
  watchingNothing: '：还没有开始训练',
  reconnecting: '正在重连',
  reconnectingAbout: '：本标签页掉线了，其他人仍在训练',
  rejoining: '重新连接',
  rejoiningAbout: (gone) =>
    `：${gone.length === 0 ? '' : `${gone.map((rank) => formatRank(rank)).join('、')} 离开了，`}正在重新连接`,
  inBackground: (step, of) => `第 ${step}${of === null ? '' : `/${of}`} 步，在后台训练`,
};
