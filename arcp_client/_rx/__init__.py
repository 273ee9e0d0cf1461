"""Implements `arcp_client.rx`: Rx operators with ordered async handlers.

``delivery`` tokens · ``buffer`` limits · ``channel`` the bounded source of an operator · ``sink``
the base of all subscribers · ``handling`` runs handlers · ``serial`` one lane · ``keyed`` one lane
for each key · ``stream`` iterators.
"""
