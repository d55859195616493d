import type { UiMessages } from '../en/index.ts';

export const generationTexts: UiMessages['generation'] = {
  title: '生成的文字',
  notTested: '文章末尾不参与训练。隔一段时间，用它来测试模型。',
  tested: (loss, bigram, isBelow) =>
    `在不参与训练的文章末尾，损失为每个字符 ${loss} 奈特。二元模型只知道相邻的两个字符，它的损失是 ${bigram}${isBelow ? '，本模型更好 ✓' : ''}。`,
  samples: '训练过程中',
  noSamples: '模型在第一步之后生成一段样本，之后间隔越来越长。',
  after: (steps, loss) => `${steps} 步之后，损失 ${loss}`,
  ask: '续写文字',
  prompt: '开头',
  temperature: '温度',
  temperatureAbout:
    '温度为 0 时，模型总是取最可能的字符；为 1 时，按概率抽取字符。开头里如果有训练文章中没有的字符，会被略去。',
  generate: '生成',
  generating: '正在生成……',
  answered: (steps) => `${steps} 步之后`,
  result: (bigram, steps, time) =>
    `奈特每字符，是在不参与训练的文章末尾的损失，共 ${steps} 步，用时 ${time}。二元模型的损失是 ${bigram}。`,
};
