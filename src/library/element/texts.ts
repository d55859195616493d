/** Texts of the element `<peergrad-room>`, in the languages of the app. */

export interface PeergradRoomTexts {
  region: string;
  connecting: string;
  present: (present: number, worldSize: number | null) => string;
  /** Shown while this newcomer receives the state of a running job. */
  receiving: (percent: number) => string;
  copy: string;
  copied: string;
  /** Shown if the browser does not let the page copy, as on pages over plain http. */
  copyByHand: string;
  qr: (link: string) => string;
  localOnly: string;
}

const EN: PeergradRoomTexts = {
  region: 'Room',
  connecting: 'Connecting to the room …',
  present: (present, worldSize) => {
    const [total, verb] = worldSize === null ? [present, present] : [worldSize, present];
    const count = worldSize === null ? `${present}` : `${present} of ${worldSize}`;
    return `${count} ${total === 1 ? 'rank' : 'ranks'} ${verb === 1 ? 'is' : 'are'} present`;
  },
  receiving: (percent) => `Receiving the model, ${percent} %`,
  copy: 'Copy the link',
  copied: 'Copied ✓',
  copyByHand: 'Copy the selected link by hand',
  qr: (link) => `QR code of ${link}`,
  localOnly: 'This link opens on this machine only.',
};

const ZH: PeergradRoomTexts = {
  region: '房间',
  connecting: '正在连接房间……',
  present: (present, worldSize) =>
    worldSize === null ? `已有 ${present} 个 rank` : `已有 ${present} / ${worldSize} 个 rank`,
  receiving: (percent) => `正在接收模型，${percent} %`,
  copy: '复制链接',
  copied: '已复制 ✓',
  copyByHand: '请手动复制选中的链接',
  qr: (link) => `${link} 的二维码`,
  localOnly: '这个链接只能在这台机器上打开。',
};

/** Returns the texts for a `lang` attribute. */
export function roomElementTextsIn(language: string): PeergradRoomTexts {
  return language.toLowerCase().startsWith('zh') ? ZH : EN;
}
