/** For hosts: removes a member from the room. */
import { send } from '../state/store.ts';
import { messages } from '../locales/index.ts';
import { ConfirmButton } from './ConfirmButton.tsx';

export function RemoveButton({ member, name }: { member: string; name: string }) {
  const { controls } = messages.value.lobby;
  return (
    <ConfirmButton
      class="quiet small-button"
      label={controls.remove}
      name={controls.removeWhom(name)}
      title={controls.removeAbout}
      question={controls.removeQuestion(name)}
      yes={controls.remove}
      no={controls.keep}
      onyes={() => send({ type: 'remove', member })}
    />
  );
}
