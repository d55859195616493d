import type { UiMessages } from '../en/index.ts';

export const homeTexts: UiMessages['home'] = {
  title: '用许多标签页训练一个模型。',
  lead: (allReduce) => (
    <>
      在几台机器上打开本页。每个标签页用自己那份数据算出梯度，再通过{allReduce}把梯度加起来；梯度直接在浏览器之间传送。
    </>
  ),
  start: '新建房间',
  code: '或输入房间码',
  join: '加入',
  lesson: '或者独自上这堂课',
  lessonAbout: '弄懂什么是全归约',
  pipeline: '或者上关于流水线的课',
  pipelineAbout: '弄懂标签页怎样分担一个大模型',
  network: '或者检查网络',
  networkAbout: '在和其他设备一起上课之前',
  codeLength: (letters) => `房间码由 ${letters} 个字母和数字组成，例如 K7F-3QX。`,
  codeLetters: '房间码里没有 0、O、1、I 和 L。请再检查一遍。',
  saved: {
    title: '继续保存的训练',
    step: (step) => `第 ${step} 步`,
    when: (ago, room) => (
      <>
        {ago}保存于房间 {room}
      </>
    ),
    roomAbout: '如果房间还在，就加入它',
    resume: '继续',
    resumeFrom: (name, step) => `从第 ${step} 步继续 ${name}`,
    delete: '删除',
    deleteWhich: (name, step) => `删除 ${name}，第 ${step} 步`,
    question: '删除这次训练？',
    keep: '保留',
  },
};
