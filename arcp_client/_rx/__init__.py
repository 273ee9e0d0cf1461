"""Ordered async handling: the parts of `arcp_client.rx`, one module for each state.

``delivery`` tokens · ``buffer`` counts and limits · ``channel`` the source in front of an operator
· ``sink`` the base of all subscribers · ``handling`` runs handlers · ``serial`` one lane ·
``keyed`` one lane for each key · ``stream`` iterators.
"""
