import type { Words } from '../en/index.ts';

export const lobby: Words['lobby'] = {
  controls: {
    pause: '暂停',
    pauseTitle: '训练在两步之间停下，所有人一起等待；不会丢失任何进度',
    resume: '继续',
    resumeTitle: '届时在场的标签页接着训练',
  },
};
